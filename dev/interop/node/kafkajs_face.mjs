// kafkajs: transactions of protocol 1 in old versions, classic groups without static members.
import { createRequire } from 'node:module'

const require = createRequire(`${process.env.WORK}/package.json`)
const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel } = require('kafkajs')
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')

const codecs = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy }

export default async function face (address, { until, equal, refused, run, topic, write, finish, read }) {
  // Retries last longer than a broker that was killed needs to be back.
  const kafka = new Kafka({ brokers: [address], logLevel: logLevel.ERROR, retry: { initialRetryTime: 50, maxRetryTime: 1000, retries: 60 } })
  const admin = kafka.admin()
  await admin.connect()
  let readers = 0

  class Producer {
    constructor (inner, codec = 'none') {
      [this.inner, this.codec, this.buffer] = [inner, codec, new Map()]
      this.sender = inner
    }

    send (topic, partition, value, { key, headers, timestamp } = {}) {
      if (!this.buffer.has(topic)) this.buffer.set(topic, [])
      this.buffer.get(topic).push({ partition, value, key, headers, timestamp: timestamp && `${timestamp}` })
    }

    async flush () {
      const sent = [...this.buffer]
      this.buffer.clear()
      for (const [topic, messages] of sent) await this.sender.send({ topic, messages, acks: -1, compression: codecs[this.codec] })
    }

    async close () {
      await this.inner.disconnect()
    }
  }

  class Transactional extends Producer {
    async begin () {
      this.sender = await this.inner.transaction()
    }

    async sendOffsetOf (member, { topic, partition, offset }) {
      await this.sender.sendOffsets({ consumerGroupId: member.group, topics: [{ topic, partitions: [{ partition, offset: `${offset + 1}` }] }] })
    }

    async commit () {
      await this.sender.commit()
    }

    async abort () {
      await this.sender.abort()
    }
  }

  class Member {
    constructor (group, topic, { isolation = 'read_committed', commits = true } = {}) {
      [this.group, this.topic, this.found, this.parts, this.joins] = [group, topic, [], [], 0]
      this.inner = kafka.consumer({
        groupId: group, sessionTimeout: 6000, rebalanceTimeout: 10000, heartbeatInterval: 500, maxWaitTimeInMs: 200,
        readUncommitted: isolation === 'read_uncommitted'
      })
      this.commits = commits
    }

    async start () {
      this.inner.on(this.inner.events.GROUP_JOIN, ({ payload }) => {
        this.joins++
        this.parts = [...(payload.memberAssignment[this.topic] ?? [])].sort()
      })
      await this.inner.connect()
      await this.inner.subscribe({ topic: this.topic, fromBeginning: true })
      await this.inner.run({
        autoCommit: this.commits,
        autoCommitThreshold: 1,
        eachMessage: async ({ topic, partition, message }) => {
          const headers = Object.fromEntries(Object.entries(message.headers ?? {}).map(([key, value]) => [key, value.toString()]))
          this.found.push({
            topic, partition, offset: Number(message.offset), key: message.key?.toString(), value: message.value.toString(), headers,
            timestamp: Number(message.timestamp)
          })
        }
      })
      return this
    }

    assignment () {
      return this.parts
    }

    rebalances () {
      return this.joins
    }

    async close () {
      await this.inner.disconnect()
    }
  }

  const made = {
    codecs: ['gzip', 'snappy'],
    lacks: { a_static_member_comes_back_to_its_partitions_without_a_rebalance: 'kafkajs has no static members' },

    async makeTopic (name, partitions) {
      equal(await admin.createTopics({ topics: [{ topic: name, numPartitions: partitions, replicationFactor: 1 }], waitForLeaders: true }), true)
    },

    async producer (codec) {
      const inner = kafka.producer({ idempotent: true, maxInFlightRequests: 1, allowAutoTopicCreation: false })
      await inner.connect()
      return new Producer(inner, codec)
    },

    async transactional (id, timeoutMs = 60000) {
      const inner = kafka.producer({ transactionalId: id, idempotent: true, maxInFlightRequests: 1, transactionTimeout: timeoutMs })
      await inner.connect()
      return new Transactional(inner)
    },

    async reader (topic, partitions, isolation) {
      const reader = await new Member(`reader-${run}-${readers++}`, topic, { isolation, commits: false }).start()
      const close = reader.close.bind(reader)
      return { get found () { return reader.found.map(({ topic, ...record }) => record) }, close }
    },

    member: (group, topic, instance, more) => new Member(group, topic, more).start(),

    async committed (group, topic) {
      const [{ partitions }] = await admin.fetchOffsets({ groupId: group, topics: [topic] })
      return partitions.sort((a, b) => a.partition - b.partition).map(({ offset }) => Number(offset))
    },

    own: {
      async committed_offsets_can_be_set_reset_and_deleted_with_their_group () {
        const [name, group] = [await topic('offsets', 2), `offsets-${run}`]
        const listed = async () => (await admin.fetchOffsets({ groupId: group, topics: [name] }))[0].partitions
          .map(({ partition, offset }) => [partition, offset]).sort()
        await admin.setOffsets({ groupId: group, topic: name, partitions: [{ partition: 0, offset: '7' }, { partition: 1, offset: '9' }] })
        equal(await listed(), [[0, '7'], [1, '9']])
        await admin.resetOffsets({ groupId: group, topic: name, earliest: true })
        // It commits the number that stands for the earliest offset.
        equal(await listed(), [[0, '-2'], [1, '-2']])
        const { groups: [described] } = await admin.describeGroups([group])
        equal([described.errorCode, described.state, described.members], [0, 'Empty', []])
        equal((await admin.listGroups()).groups.some(({ groupId }) => groupId === group), true)
        await admin.deleteGroups([group])
        equal((await admin.listGroups()).groups.some(({ groupId }) => groupId === group), false)
      },

      async topics_are_made_described_altered_grown_and_deleted () {
        const name = `admin-${run}`
        const asked = { topic: name, numPartitions: 2, replicationFactor: 1, configEntries: [{ name: 'retention.ms', value: '100000' }] }
        equal(await admin.createTopics({ topics: [asked] }), true)
        equal(await admin.createTopics({ topics: [asked] }), false, 'a second time')
        const config = async key => {
          const { resources: [{ configEntries }] } = await admin.describeConfigs({ resources: [{ type: ConfigResourceTypes.TOPIC, name, configNames: [key] }] })
          return configEntries[0].configValue
        }
        equal(await config('retention.ms'), '100000')
        await admin.alterConfigs({ resources: [{ type: ConfigResourceTypes.TOPIC, name, configEntries: [{ name: 'retention.ms', value: '200000' }] }] })
        await until('the new value', async () => await config('retention.ms') === '200000')
        await admin.createPartitions({ topicPartitions: [{ topic: name, count: 4 }] })
        await until('four partitions', async () => (await admin.fetchTopicMetadata({ topics: [name] })).topics[0].partitions.length === 4)
        await admin.deleteTopics({ topics: [name] })
        await until('it is gone', async () => !(await admin.listTopics()).includes(name))
        equal((await admin.describeCluster()).brokers.length, 1)
      },

      async deleted_records_are_gone_and_the_log_begins_after_them () {
        const name = await topic('records')
        await write(name, Array.from({ length: 20 }, (_, i) => `${i}`))
        await finish(name)
        // It asks for the leaders only here, and needs them there.
        await admin.fetchTopicOffsets(name)
        await admin.deleteTopicRecords({ topic: name, partitions: [{ partition: 0, offset: '12' }] })
        const [{ low, high }] = await admin.fetchTopicOffsets(name)
        equal([low, high], ['12', '21'])
        equal((await read(name))[0].map(({ value }) => value), Array.from({ length: 8 }, (_, i) => `${i + 12}`))
      },

      async offsets_are_found_by_time () {
        const name = await topic('times')
        const plain = await made.producer()
        for (let i = 0; i < 10; i++) plain.send(name, 0, `${i}`, { timestamp: 1_600_000_000_000 + 1000 * i })
        await plain.flush()
        await plain.close()
        for (const [timestamp, offset] of [[1_600_000_000_000, '0'], [1_600_000_003_500, '4'], [1_600_000_009_000, '9']]) {
          equal((await admin.fetchTopicOffsetsByTimestamp(name, timestamp))[0].offset, offset, `${timestamp}`)
        }
      }
    }
  }
  return made
}
