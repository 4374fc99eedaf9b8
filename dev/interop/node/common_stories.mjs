// The stories that every client of Node.js tells, over a small face that hides which client it is. usage: node common_stories.mjs FACE ADDRESS
// [STORY…], or `--child NAME ARGUMENTS…`: the process that a story is going to kill. WORK names the folder with the packages.
//
// A face has, all asynchronous and plain values:
//   codecs, lacks: {story: reason}              makeTopic(name, partitions)
//   producer(codec)                             send(topic, partition, value, {key, headers, timestamp}), flush(), close()
//   transactional(id, timeoutMs)                the same, with begin(), sendOffsetOf(record), commit(), abort()
//   reader(topic, partitions, isolation)        found: the records so far, close()
//   member(group, topic, instance)              found, assignment(), rebalances(), close(); what it reads, it commits
//   committed(group, topic, partitions)         own: {name: story of this client alone}
//
// A reader has read everything before a record once it has that record, so each story writes `the end` into every partition.
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual, inspect } from 'node:util'
import { fileURLToPath } from 'node:url'

const [faceName, address, ...more] = process.argv.slice(2)
const run = randomUUID().slice(0, 8)
const END = 'the end'

export async function until (what, ready, seconds = 30) {
  const deadline = Date.now() + seconds * 1000
  for (;;) {
    const result = await ready()
    if (result) return result
    if (Date.now() > deadline) throw new Error(`not within ${seconds} s: ${typeof what === 'function' ? what() : what}`)
    await sleep(30)
  }
}

export function equal (found, wanted, what = '') {
  if (!isDeepStrictEqual(found, wanted)) throw new Error(`${what} found ${inspect(found, { breakLength: Infinity }).slice(0, 500)}, wanted ${inspect(wanted, { breakLength: Infinity }).slice(0, 500)}`)
}

export async function refused (what, call) {
  try {
    await call()
  } catch (error) {
    return error
  }
  throw new Error(`${what}, and it was not refused`)
}

const range = (from, to) => Array.from({ length: to - from }, (_, i) => from + i)
const face = await (await import(`./${faceName}_face.mjs`)).default(address, { until, equal, refused, run, topic, write, finish, read })

async function topic (name, partitions = 1) {
  await face.makeTopic(`${name}-${run}`, partitions)
  return `${name}-${run}`
}

async function write (topic, texts, partition = 0) {
  const plain = await face.producer()
  for (const text of texts) plain.send(topic, partition, text)
  await plain.flush()
  await plain.close()
}

async function finish (topic, partitions = 1) {
  for (const partition of range(0, partitions)) await write(topic, [END], partition)
}

const ended = (found, partitions) => found.filter(record => record.value === END).length === partitions

// The records up to `the end` of each partition, without it: by partition, in the order they came.
async function read (topic, partitions = 1, isolation = 'read_committed') {
  const reader = await face.reader(topic, partitions, isolation)
  await until(() => `the end of ${topic}: ${inspect(reader.found.map(record => record.value))}`.slice(0, 500), () => ended(reader.found, partitions), 60)
  await reader.close()
  return range(0, partitions).map(partition => reader.found.filter(record => record.partition === partition && record.value !== END))
}

const values = async (topic, isolation) => (await read(topic, 1, isolation))[0].map(record => record.value)

const stories = {
  async idempotent_records_come_back_once_in_order_and_whole_in_every_codec () {
    for (const codec of ['none', ...face.codecs]) {
      const name = await topic(`plain-${codec}`, 3)
      const plain = await face.producer(codec)
      for (const i of range(0, 900)) {
        plain.send(name, i % 3, `${i}`, { key: `k${i % 7}`, headers: { h: 'one' }, timestamp: 1_600_000_000_000 + i })
        if (i % 100 === 99) await plain.flush()
      }
      await plain.close()
      await finish(name, 3)
      for (const [partition, records] of (await read(name, 3)).entries()) {
        const own = range(0, 300).map(i => partition + 3 * i)
        equal(records, own.map((i, at) => ({
          partition, offset: at, key: `k${i % 7}`, value: `${i}`, headers: { h: 'one' }, timestamp: 1_600_000_000_000 + i
        })), `${codec}, partition ${partition}:`)
      }
    }
  },

  async committed_transactions_are_seen_whole_and_aborted_ones_never () {
    const name = await topic('transactions', 3)
    const writer = await face.transactional(`commit-and-abort-${run}`)
    for (const [round, ending] of ['commit', 'abort', 'commit', 'abort', 'commit'].entries()) {
      await writer.begin()
      for (const i of range(0, 12)) writer.send(name, i % 3, `${ending} ${round} ${i}`)
      await writer.flush()
      await writer[ending]()
    }
    await writer.close()
    await finish(name, 3)
    const [committed, everything] = [await read(name, 3), await read(name, 3, 'read_uncommitted')]
    for (const partition of range(0, 3)) {
      const own = rounds => rounds.flatMap(([round, ending]) => range(0, 12).filter(i => i % 3 === partition).map(i => `${ending} ${round} ${i}`))
      equal(committed[partition].map(record => record.value), own([[0, 'commit'], [2, 'commit'], [4, 'commit']]))
      equal(everything[partition].map(record => record.value), own([[0, 'commit'], [1, 'abort'], [2, 'commit'], [3, 'abort'], [4, 'commit']]))
    }
  },

  async both_isolations_read_side_by_side () {
    const name = await topic('open')
    const writer = await face.transactional(`open-${run}`)
    await writer.begin()
    writer.send(name, 0, 'open')
    await writer.flush()
    await write(name, ['after'])
    await finish(name)
    const committed = await face.reader(name, 1, 'read_committed')
    equal(await values(name, 'read_uncommitted'), ['open', 'after'])
    equal(committed.found, [], 'read_committed, while the transaction is open:')
    await writer.commit()
    await writer.close()
    await until('the end', () => ended(committed.found, 1))
    await committed.close()
    equal(committed.found.map(record => record.value), ['open', 'after', END])
  },

  async sent_offsets_commit_and_abort_with_their_transaction () {
    const [source, sink, group] = [await topic('source'), await topic('sink'), `loop-${run}`]
    await write(source, range(0, 30).map(String))
    const reader = await face.member(group, source, undefined, { commits: false })
    await until('all thirty', () => reader.found.length >= 30)
    equal(reader.found.map(record => record.value), range(0, 30).map(String))
    const writer = await face.transactional(group)
    const step = async (first, ending, then) => {
      await writer.begin()
      for (const i of range(first, first + 10)) writer.send(sink, 0, `${ending} ${i}`)
      await writer.flush()
      await writer.sendOffsetOf(reader, reader.found[first + 9])
      await writer[ending]()
      let last
      await until(() => `offset ${then}, found ${last}`, async () => (last = await face.committed(group, source, 1))[0] === then)
    }
    await step(0, 'commit', 10)
    await step(10, 'abort', 10)
    await step(10, 'commit', 20)
    await writer.close()
    await reader.close()
    await finish(sink)
    equal(await values(sink), range(0, 20).map(i => `commit ${i}`))
  },

  async a_zombie_is_fenced_and_leaves_nothing () {
    const [name, id] = [await topic('fence'), `fence-${run}`]
    const old = await face.transactional(id)
    await old.begin()
    old.send(name, 0, 'of the zombie')
    await old.flush()
    const heir = await face.transactional(id)
    await heir.begin()
    heir.send(name, 0, 'of its successor')
    await heir.flush()
    await heir.commit()
    const error = await refused('the zombie wrote and committed', async () => {
      old.send(name, 0, 'late')
      await old.flush()
      await old.commit()
    })
    const told = inspect(error, { depth: 6 })
    if (!/PRODUCER_FENCED|INVALID_PRODUCER_EPOCH|PRODUCER.EPOCH/i.test(told)) throw new Error(`the zombie was refused otherwise: ${told}`)
    await heir.begin()
    heir.send(name, 0, 'and goes on')
    await heir.flush()
    await heir.commit()
    await heir.close()
    await finish(name)
    equal(await values(name), ['of its successor', 'and goes on'])
  },

  async a_killed_client_s_transaction_is_aborted_when_its_time_is_up () {
    const [name, id] = [await topic('killed'), `killed-${run}`]
    await (await victim('writesAndWaits', id, name))()
    await write(name, ['after'])
    await finish(name)
    const committed = await face.reader(name, 1, 'read_committed')
    equal(await values(name, 'read_uncommitted'), ['of the killed 0', 'of the killed 1', 'of the killed 2', 'after'])
    equal(committed.found, [], 'while it is open:')
    await until('the aborted transaction lets go', () => ended(committed.found, 1))
    equal(committed.found.map(record => record.value), ['after', END])
    await committed.close()
  },

  async members_share_and_whoever_stays_takes_over () {
    const [name, group] = [await topic('group', 4), `members-${run}`]
    for (const partition of range(0, 4)) await write(name, range(0, 100).filter(i => i % 4 === partition).map(String), partition)
    const both = [await face.member(group, name), await face.member(group, name)]
    const shares = () => both.map(member => member.assignment())
    await until(() => `two each: ${inspect(shares())}`, () => shares().every(share => share.length === 2), 60)
    equal(shares().flat().sort(), [0, 1, 2, 3])
    const all = () => new Set(both.flatMap(member => member.found.map(record => record.value)))
    await until(() => `all of it, ${all().size} came`, () => all().size === 100, 60)
    await both[0].close()
    await until('all four', () => both[1].assignment().length === 4, 60)
    for (const partition of range(0, 4)) await write(name, [`${100 + partition}`], partition)
    await until('what came later', () => range(100, 104).every(i => both[1].found.some(record => record.value === `${i}`)), 60)
    // What a closing member gave back uncommitted is read again, by whoever takes over.
    let last
    await until(() => `offsets ${last}`, async () => isDeepStrictEqual(last = await face.committed(group, name, 4), [26, 26, 26, 26]))
    await both[1].close()
  },

  async a_killed_member_s_partitions_move_when_its_session_ends () {
    const [name, group] = [await topic('killed-member', 2), `killed-member-${run}`]
    const kill = await victim('joinsAndWaits', group, name)
    const heir = await face.member(group, name)
    await until(() => `one of two: ${heir.assignment()}`, () => heir.assignment().length === 1, 60)
    await kill()
    await until('both', () => heir.assignment().length === 2, 60)
    await heir.close()
  },

  async a_static_member_comes_back_to_its_partitions_without_a_rebalance () {
    const [name, group] = [await topic('static', 4), `static-${run}`]
    const stays = await face.member(group, name, 'stays')
    const kill = await victim('joinsAndWaits', group, name, 'leaves')
    await until(() => `two: ${stays.assignment()}`, () => stays.assignment().length === 2, 60)
    const [wanted, seen] = [range(0, 4).filter(i => !stays.assignment().includes(i)), stays.rebalances()]
    await kill()
    const back = await face.member(group, name, 'leaves')
    await until(() => `its partitions: ${back.assignment()}`, () => isDeepStrictEqual(back.assignment(), wanted), 60)
    equal(stays.rebalances(), seen, 'rebalances of who stays:')
    await stays.close()
    await back.close()
  },

  ...face.own
}

const children = {
  async writesAndWaits (id, name) {
    const writer = await face.transactional(id, 2000)
    await writer.begin()
    for (const i of range(0, 3)) writer.send(name, 0, `of the killed ${i}`)
    await writer.flush()
  },
  async joinsAndWaits (group, name, instance) {
    const member = await face.member(group, name, instance)
    await until('a share', () => member.assignment().length > 0, 60)
  }
}

// Starts a process of this file, waits until it has done its part, and returns what kills it.
async function victim (...command) {
  const process_ = spawn(process.execPath, [fileURLToPath(import.meta.url), faceName, address, '--child', ...command], { stdio: ['ignore', 'pipe', 'inherit'] })
  let told = ''
  process_.stdout.on('data', data => { told += data })
  await until(() => `${command[0]} is ready: it said ${told}`, () => told.includes('ready\n') || process_.exitCode !== null, 60)
  equal(process_.exitCode, null, `${command[0]} ended:`)
  return () => new Promise(resolve => {
    process_.on('exit', resolve)
    process_.kill('SIGKILL')
  })
}

if (more[0] === '--child') {
  await children[more[1]](...more.slice(2))
  process.stdout.write('ready\n')
  setInterval(() => {}, 3_600_000)
} else {
  // A client's own callbacks may throw after their story: that must not hide the others.
  process.on('unhandledRejection', error => console.error('unhandled', error))
  process.on('uncaughtException', error => console.error('uncaught', error))
  for (const [name, story] of Object.entries(stories)) {
    if (more.length && !more.includes(name)) continue
    const begin = Date.now()
    let [result, note] = ['PASS', '']
    if (face.lacks[name]) {
      [result, note] = ['SKIP', face.lacks[name]]
    } else {
      try {
        await Promise.race([story(), sleep(120_000, undefined, { ref: false }).then(() => { throw new Error('not done after 120 s') })])
      } catch (error) {
        console.error(error)
        ;[result, note] = ['FAIL', `${error}`]
      }
    }
    console.log(['result', name, result, ((Date.now() - begin) / 1000).toFixed(1), note.replace(/\s+/g, ' ').slice(0, 500)].join('\t'))
  }
  process.exit(0)
}
