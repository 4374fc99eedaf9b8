/* librdkafka's read-process-write loop: the C library itself, so that no other language's price is measured.
 *
 * It is linked to the library inside the confluent-kafka wheel, which brings no headers: what is used of its interface is declared here.
 *
 * It reads one command from stdin, does it, and ends:
 *   loop bootstrap= input= output= group= records= seconds=
 * joins the group, and until the time or the input is over: takes so many records, begins a transaction, sends them on, sends the positions,
 * commits. Two transactions warm up; then it prints {"measured":"begin"}, and in the end one line of JSON. */

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_error_s rd_kafka_error_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_topic_partition_list_s rd_kafka_topic_partition_list_t;
typedef struct rd_kafka_consumer_group_metadata_s rd_kafka_consumer_group_metadata_t;
typedef struct rd_kafka_message_s {
    int err;
    rd_kafka_topic_t *topic;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *private_data;
} rd_kafka_message_t;

enum { PRODUCER = 0, CONSUMER = 1, COPY_PAYLOAD = 2, PARTITION_BY_KEY = -1, QUEUE_FULL = -184 };

rd_kafka_conf_t *rd_kafka_conf_new(void);
int rd_kafka_conf_set(rd_kafka_conf_t *, const char *, const char *, char *, size_t);
rd_kafka_t *rd_kafka_new(int, rd_kafka_conf_t *, char *, size_t);
rd_kafka_topic_t *rd_kafka_topic_new(rd_kafka_t *, const char *, void *);
rd_kafka_topic_partition_list_t *rd_kafka_topic_partition_list_new(int);
void *rd_kafka_topic_partition_list_add(rd_kafka_topic_partition_list_t *, const char *, int32_t);
void rd_kafka_topic_partition_list_destroy(rd_kafka_topic_partition_list_t *);
int rd_kafka_subscribe(rd_kafka_t *, const rd_kafka_topic_partition_list_t *);
int rd_kafka_assignment(rd_kafka_t *, rd_kafka_topic_partition_list_t **);
int rd_kafka_position(rd_kafka_t *, rd_kafka_topic_partition_list_t *);
int rd_kafka_poll_set_consumer(rd_kafka_t *);
rd_kafka_queue_t *rd_kafka_queue_get_consumer(rd_kafka_t *);
long rd_kafka_consume_batch_queue(rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t);
void rd_kafka_message_destroy(rd_kafka_message_t *);
int rd_kafka_produce(rd_kafka_topic_t *, int32_t, int, void *, size_t, const void *, size_t, void *);
int rd_kafka_last_error(void);
const char *rd_kafka_err2str(int);
const char *rd_kafka_error_string(const rd_kafka_error_t *);
int rd_kafka_poll(rd_kafka_t *, int);
rd_kafka_error_t *rd_kafka_init_transactions(rd_kafka_t *, int);
rd_kafka_error_t *rd_kafka_begin_transaction(rd_kafka_t *);
rd_kafka_error_t *rd_kafka_send_offsets_to_transaction(rd_kafka_t *, const rd_kafka_topic_partition_list_t *,
                                                       const rd_kafka_consumer_group_metadata_t *, int);
rd_kafka_error_t *rd_kafka_commit_transaction(rd_kafka_t *, int);
rd_kafka_consumer_group_metadata_t *rd_kafka_consumer_group_metadata(rd_kafka_t *);
void rd_kafka_consumer_group_metadata_destroy(rd_kafka_consumer_group_metadata_t *);

static const int LIMIT_MS = 60000;
static const int WARMING_TRANSACTIONS = 2;
/* So long without a record, and the input is over. */
static const double INPUT_OVER_SECONDS = 3;
/* The first one may take longer: the group has to come together, on a broker that may just have started. */
static const double INPUT_COMES_SECONDS = 60;

static void fail(const char *what, const char *why) {
    printf("{\"error\":\"%s: %s\"}\n", what, why);
    exit(1);
}

static void must(const char *what, rd_kafka_error_t *error) {
    if (error) fail(what, rd_kafka_error_string(error));
}

static void must_be_0(const char *what, int error) {
    if (error) fail(what, rd_kafka_err2str(error));
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* The value of `key=` among the words of the command. */
static const char *argument(char **words, int count, const char *key) {
    for (int i = 1; i < count; i++) {
        size_t length = strlen(key);
        if (!strncmp(words[i], key, length) && words[i][length] == '=') return words[i] + length + 1;
    }
    fail("without", key);
    return NULL;
}

static void set(rd_kafka_conf_t *conf, const char *key, const char *value) {
    char error[512];
    if (rd_kafka_conf_set(conf, key, value, error, sizeof error)) fail(key, error);
}

static rd_kafka_t *client(int kind, rd_kafka_conf_t *conf) {
    char error[512];
    rd_kafka_t *client = rd_kafka_new(kind, conf, error, sizeof error);
    if (!client) fail("rd_kafka_new", error);
    return client;
}

static int compare(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

/* Up to `wanted` records; fewer only where none comes for so long. */
static size_t take(rd_kafka_queue_t *queue, rd_kafka_message_t **messages, size_t wanted, double patience_seconds) {
    size_t count = 0;
    double since = now();
    while (count < wanted && now() - since < patience_seconds) {
        long got = rd_kafka_consume_batch_queue(queue, 100, messages + count, wanted - count);
        for (long i = 0; i < got; i++) {
            rd_kafka_message_t *message = messages[count];
            if (message->err) {
                /* An event of the group, or a passing error: no record. */
                rd_kafka_message_destroy(message);
                memmove(messages + count, messages + count + 1, (got - i - 1) * sizeof *messages);
            } else {
                count++;
                since = now();
            }
        }
    }
    return count;
}

static void transaction(rd_kafka_t *producer, rd_kafka_t *consumer, rd_kafka_topic_t *output, rd_kafka_message_t **messages, size_t count) {
    must("begin", rd_kafka_begin_transaction(producer));
    for (size_t i = 0; i < count; i++) {
        rd_kafka_message_t *message = messages[i];
        while (rd_kafka_produce(output, PARTITION_BY_KEY, COPY_PAYLOAD, message->payload, message->len, message->key, message->key_len, NULL)) {
            if (rd_kafka_last_error() != QUEUE_FULL) fail("produce", rd_kafka_err2str(rd_kafka_last_error()));
            rd_kafka_poll(producer, 1);
        }
        rd_kafka_message_destroy(message);
    }
    rd_kafka_topic_partition_list_t *positions;
    must_be_0("assignment", rd_kafka_assignment(consumer, &positions));
    must_be_0("position", rd_kafka_position(consumer, positions));
    rd_kafka_consumer_group_metadata_t *member = rd_kafka_consumer_group_metadata(consumer);
    must("send offsets", rd_kafka_send_offsets_to_transaction(producer, positions, member, LIMIT_MS));
    rd_kafka_consumer_group_metadata_destroy(member);
    rd_kafka_topic_partition_list_destroy(positions);
    must("commit", rd_kafka_commit_transaction(producer, LIMIT_MS));
    rd_kafka_poll(producer, 0);
}

int main(void) {
    static char line[4096];
    char *words[16];
    int count = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!fgets(line, sizeof line, stdin)) return 0;
    for (char *word = strtok(line, " \n"); word && count < 16; word = strtok(NULL, " \n")) words[count++] = word;

    const char *bootstrap = argument(words, count, "bootstrap"), *group = argument(words, count, "group");
    size_t wanted = strtoul(argument(words, count, "records"), NULL, 10);
    double seconds = atof(argument(words, count, "seconds"));

    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", bootstrap);
    set(conf, "transactional.id", group);
    rd_kafka_t *producer = client(PRODUCER, conf);
    must("init transactions", rd_kafka_init_transactions(producer, LIMIT_MS));
    rd_kafka_topic_t *output = rd_kafka_topic_new(producer, argument(words, count, "output"), NULL);

    conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", bootstrap);
    set(conf, "group.id", group);
    set(conf, "auto.offset.reset", "earliest");
    set(conf, "enable.auto.commit", "false");
    set(conf, "isolation.level", "read_committed");
    rd_kafka_t *consumer = client(CONSUMER, conf);
    must_be_0("poll", rd_kafka_poll_set_consumer(consumer));
    rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(topics, argument(words, count, "input"), -1);
    must_be_0("subscribe", rd_kafka_subscribe(consumer, topics));
    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(consumer);

    rd_kafka_message_t **messages = calloc(wanted, sizeof *messages);
    size_t took_size = 1 << 20, transactions = 0;
    double *took = calloc(took_size, sizeof *took);
    if (!messages || !took) fail("calloc", "no memory");
    for (int i = 0; i < WARMING_TRANSACTIONS; i++) {
        size_t got = take(queue, messages, wanted, INPUT_COMES_SECONDS);
        if (!got) fail("the input", "nothing came");
        transaction(producer, consumer, output, messages, got);
    }
    printf("{\"measured\":\"begin\"}\n");
    uint64_t records = 0;
    double start = now(), end = start + seconds, last = start;
    while (last < end && transactions < took_size) {
        size_t got = take(queue, messages, wanted, INPUT_OVER_SECONDS);
        if (!got) break;
        double begin = now();
        transaction(producer, consumer, output, messages, got);
        last = now();
        took[transactions++] = last - begin;
        records += got;
    }
    if (!transactions) fail("the input", "over before it began");
    qsort(took, transactions, sizeof *took, compare);
    printf("{\"operations\":%zu,\"records\":%" PRIu64 ",\"seconds\":%.6f,\"p50_ms\":%.3f,\"p99_ms\":%.3f}\n", transactions, records,
           last - start, took[(transactions - 1) / 2] * 1e3, took[(transactions * 99 + 99) / 100 - 1] * 1e3);
    /* Whoever measures this process wants to look at it once more. It leaves no group behind that anyone would wait for: each run has its own. */
    fgets(line, sizeof line, stdin);
    return 0;
}
