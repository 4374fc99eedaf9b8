// A client of Node.js as the writer of `kill_broker.py`. usage: FACE=NAME node writer.mjs ADDRESS
import { setTimeout as sleep } from 'node:timers/promises'

const PARTITIONS = 3
const face = await (await import(`./${process.env.FACE}_face.mjs`)).default(process.argv[2], { run: 'writer' })
let over = false
process.stdin.on('end', () => { over = true }).resume()
process.on('unhandledRejection', error => console.error('unhandled', error))
process.on('uncaughtException', error => console.error('uncaught', error))

function tell (...words) {
  process.stdout.write(`${words.join(' ').replace(/\s+/g, ' ')}\n`)
}

async function writePlain () {
  const producer = await face.producer('none')
  const numbers = new Array(PARTITIONS).fill(0)
  while (!over) {
    const partition = Math.floor(Math.random() * PARTITIONS)
    const first = numbers[partition]
    numbers[partition] += 30
    for (let number = first; number < first + 30; number++) producer.send('plain', partition, `${number}`)
    try {
      await producer.flush()
    } catch (error) {
      console.error(error)
      return tell('failed', error)
    }
    for (let number = first; number < first + 30; number++) tell('acknowledged', partition, number)
  }
  await producer.close()
}

// Settles what the one before left open, or, where a client cannot take an id over, leaves it to its time-out. The broker may be killed
// while it is asked.
let lives = 0
async function transactional () {
  for (;;) {
    try {
      const writer = face.lacks.a_zombie_is_fenced_and_leaves_nothing
        ? await face.transactional(`writer-${lives++}`, 10_000)
        : await face.transactional('writer')
      // Some clients ask for their producer id only now.
      await writer.begin()
      return writer
    } catch (error) {
      console.error(error)
      await sleep(100)
    }
  }
}

async function writeTransactions () {
  let writer = await transactional()
  let begun = true
  for (let number = 1; !over; number++) {
    const abort = Math.random() < 0.2
    try {
      if (!begun) await writer.begin()
      for (let partition = 0; partition < PARTITIONS; partition++) {
        for (let copy = 0; copy < 3; copy++) writer.send('transactional', partition, `${number} ${copy}`)
      }
      await writer.flush()
      await (abort ? writer.abort() : writer.commit())
      tell(abort ? 'aborted' : 'committed', number)
      begun = false
    } catch (error) {
      console.error(error)
      tell('unknown', number)
      writer.close().catch(error => console.error('close', error))
      writer = await transactional()
      begun = true
    }
  }
  if (begun) await writer.abort().catch(error => console.error('abort', error))
}

await Promise.all([writePlain(), writeTransactions()])
process.exit(0)
