// @platformatic/kafka: its own protocol code, transactions of protocol 1, static members, classic groups and those of the new protocol.
import { createRequire } from 'node:module'

const require = createRequire(`${process.env.WORK}/package.json`)
const { Admin, Consumer, Producer, stringSerializers, stringDeserializers, MessagesStreamModes, FetchIsolationLevels, ConfigResourceTypes } =
  require('@platformatic/kafka')

export default async function face (address, { until, equal, refused, run, topic, write, finish, read }) {
  // Retries last longer than a broker that was killed needs to be back.
  const base = { clientId: `platformatic-${run}`, bootstrapBrokers: [address], retries: 60, retryDelay: 200, strict: true }
  const admin = new Admin(base)
  let readers = 0

  class Writer {
    constructor (more) {
      this.inner = new Producer({ ...base, idempotent: true, acks: -1, serializers: stringSerializers, autocreateTopics: false, ...more })
      this.buffer = []
      this.sender = this.inner
    }

    send (topic, partition, value, { key, headers, timestamp } = {}) {
      this.buffer.push({ topic, partition, value, key, headers, timestamp: timestamp && BigInt(timestamp) })
    }

    async flush () {
      const messages = this.buffer
      this.buffer = []
      if (messages.length) await this.sender.send({ messages })
    }

    async close () {
      await this.inner.close()
    }
  }

  class Transactional extends Writer {
    async begin () {
      this.sender = await this.inner.beginTransaction()
    }

    async sendOffsetOf (member, { raw }) {
      await this.sender.addConsumer(member.inner)
      await this.sender.addOffset(raw)
    }

    async commit () {
      await this.sender.commit()
    }

    async abort () {
      await this.sender.abort()
    }
  }

  class Member {
    constructor (group, topic, instance, { isolation = 'read_committed', commits = true, manual, protocol = {} } = {}) {
      [this.topic, this.found, this.joins, this.commits, this.manual] = [topic, [], 0, commits, manual]
      this.inner = new Consumer({
        ...base, groupId: group, groupInstanceId: instance, deserializers: stringDeserializers, sessionTimeout: 6000, rebalanceTimeout: 10000,
        heartbeatInterval: 500, maxWaitTime: 200, autocommit: false,
        isolationLevel: isolation === 'read_committed' ? FetchIsolationLevels.READ_COMMITTED : FetchIsolationLevels.READ_UNCOMMITTED, ...protocol
      })
    }

    async start () {
      this.inner.on('consumer:group:join', () => { this.joins++ })
      const mode = this.manual
        ? { mode: MessagesStreamModes.MANUAL, offsets: this.manual }
        : { mode: MessagesStreamModes.COMMITTED, fallbackMode: 'earliest' }
      this.stream = await this.inner.consume({ topics: [this.topic], ...mode })
      this.stream.on('error', error => console.error('stream', error))
      this.stream.on('data', message => {
        this.found.push({
          topic: message.topic, partition: message.partition, offset: Number(message.offset), key: message.key, value: message.value,
          headers: Object.fromEntries(message.headers), timestamp: Number(message.timestamp), raw: message
        })
        if (this.commits) Promise.resolve(message.commit()).catch(error => console.error('commit', error))
      })
      return this
    }

    assignment () {
      return (this.inner.assignments ?? []).filter(part => part.topic === this.topic).flatMap(part => part.partitions).sort()
    }

    rebalances () {
      return this.joins
    }

    async close () {
      await this.inner.close(true)
    }
  }

  const made = {
    codecs: ['gzip', 'snappy', 'lz4', 'zstd'],
    lacks: {
      a_zombie_is_fenced_and_leaves_nothing: 'its InitProducerId names producer 0, so the second producer of an id is the one that is refused'
    },

    async makeTopic (name, partitions) {
      const [{ partitions: count }] = await admin.createTopics({ topics: [{ topic: name, partitions, replicas: 1 }] })
      equal(count, partitions)
      // Apache Kafka's broker hears of it from its controller, a moment later.
      await until(`${name} is there`, async () => (await admin.listTopics()).includes(name))
    },

    producer: async codec => new Writer({ compression: codec }),

    // The timeout of its requests is what it asks for as its transactions' timeout.
    transactional: async (id, timeoutMs = 60000) => new Transactional({ transactionalId: id, timeout: timeoutMs }),

    async reader (topic, partitions, isolation) {
      const offsets = Array.from({ length: partitions }, (_, partition) => ({ topic, partition, offset: 0n }))
      const reader = await new Member(`reader-${run}-${readers++}`, topic, undefined, { isolation, commits: false, manual: offsets }).start()
      return { get found () { return reader.found.map(({ topic, raw, ...record }) => record) }, close: () => reader.close() }
    },

    member: (group, topic, instance, more) => new Member(group, topic, instance, more).start(),

    async committed (group, topic, partitions) {
      const partitionIndexes = Array.from({ length: partitions }, (_, i) => i)
      const [{ topics }] = await admin.listConsumerGroupOffsets({ groups: [{ groupId: group, topics: [{ name: topic, partitionIndexes }] }], requireStable: true })
      return topics[0].partitions.sort((a, b) => a.partitionIndex - b.partitionIndex).map(({ committedOffset }) => Number(committedOffset))
    },

    own: {
      async members_of_the_new_protocol_share_and_take_over () {
        const [name, group] = [await topic('consumer-protocol', 4), `consumer-protocol-${run}`]
        const protocol = { protocol: { groupProtocol: 'consumer' } }
        const first = await made.member(group, name, undefined, protocol)
        await until('all four', () => first.assignment().length === 4, 20)
        const second = await made.member(group, name, undefined, protocol)
        await until(() => `two each: ${first.assignment()} and ${second.assignment()}`, () => first.assignment().length === 2 && second.assignment().length === 2)
        equal([...first.assignment(), ...second.assignment()].sort(), [0, 1, 2, 3])
        await write(name, ['read once'], second.assignment()[0])
        await until('the record', () => second.found.length === 1)
        await first.close()
        await until('all four', () => second.assignment().length === 4)
        await second.close()
      },

      async committed_offsets_can_be_listed_altered_and_deleted_with_their_group () {
        const [name, group] = [await topic('offsets', 2), `offsets-${run}`]
        const listed = async () => (await admin.listConsumerGroupOffsets({ groups: [group] }))[0].topics
          .flatMap(({ partitions }) => partitions.map(({ partitionIndex, committedOffset }) => [partitionIndex, committedOffset])).sort()
        const partitionOffsets = [{ partition: 0, offset: 7n }, { partition: 1, offset: 9n }]
        await admin.alterConsumerGroupOffsets({ groupId: group, topics: [{ name, partitionOffsets }] })
        equal(await listed(), [[0, 7n], [1, 9n]])
        await admin.deleteConsumerGroupOffsets({ groupId: group, topics: [{ name, partitionIndexes: [1] }] })
        equal(await listed(), [[0, 7n]])
        const described = (await admin.describeGroups({ groups: [group] })).get(group)
        equal([described.state, described.members.size], ['Empty', 0])
        equal((await admin.listGroups()).has(group), true)
        await admin.deleteGroups({ groups: [group] })
        equal((await admin.listGroups()).has(group), false)
      },

      async topics_are_made_described_altered_grown_and_deleted () {
        const name = await topic('admin', 2)
        await refused('it was made twice', () => admin.createTopics({ topics: [{ topic: name, partitions: 2, replicas: 1 }] }))
        const resource = { resourceType: ConfigResourceTypes.TOPIC, resourceName: name }
        const config = async key => {
          const [{ configs }] = await admin.describeConfigs({ resources: [{ ...resource, configurationKeys: [key] }] })
          return configs.find(entry => entry.name === key).value
        }
        equal(await config('retention.ms'), '604800000')
        await admin.incrementalAlterConfigs({ resources: [{ ...resource, configs: [{ name: 'retention.ms', configOperation: 0, value: '200000' }, { name: 'cleanup.policy', configOperation: 2, value: 'compact' }] }] })
        await until('the new values', async () => await config('retention.ms') === '200000' && await config('cleanup.policy') === 'delete,compact')
        const brokerIds = [...(await admin.metadata({ topics: [name] })).brokers.keys()]
        await admin.createPartitions({ topics: [{ name, count: 4, assignments: [{ brokerIds }, { brokerIds }] }] })
        await until('four partitions', async () => (await admin.metadata({ topics: [name], forceUpdate: true })).topics.get(name).partitionsCount === 4)
        await admin.deleteTopics({ topics: [name] })
        await until('it is gone', async () => !(await admin.listTopics()).includes(name))
      },

      async deleted_records_are_gone_and_the_log_begins_after_them () {
        const name = await topic('records')
        await write(name, Array.from({ length: 20 }, (_, i) => `${i}`))
        const deleted = await admin.deleteRecords({ topics: [{ name, partitions: [{ partition: 0, offset: 12n }] }] })
        equal(deleted[0].partitions[0].lowWatermark, 12n)
        const at = async timestamp => (await admin.listOffsets({ topics: [{ name, partitions: [{ partitionIndex: 0, timestamp }] }] }))[0].partitions[0].offset
        equal([await at(-2n), await at(-1n)], [12n, 20n])
      },

      async log_folders_are_described () {
        const name = await topic('folders', 2)
        await write(name, ['a record'])
        const [{ results }] = await admin.describeLogDirs({ topics: [{ name, partitions: [0, 1] }] })
        const sizes = results.flatMap(({ topics }) => topics).flatMap(({ partitions }) => partitions).map(({ partitionIndex, partitionSize }) => [partitionIndex, partitionSize > 0n]).sort()
        equal(sizes, [[0, true], [1, false]])
      }
    }
  }
  return made
}
