// A transaction that no coordinator will ever end: a batch of the older protocol to a partition that was never added to it. What a client's
// library does not do, so the requests are sent by hand.
//
//   HangingTransaction BOOTSTRAP TRANSACTIONAL_ID TOPIC     writes one record to partition 0; prints its offset, or the error's name
//
// The broker takes it while transaction.partition.verification.enable is false.

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.InitProducerIdRequestData;
import org.apache.kafka.common.message.InitProducerIdResponseData;
import org.apache.kafka.common.message.ProduceRequestData;
import org.apache.kafka.common.message.ProduceResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.requests.RequestHeader;

public final class HangingTransaction {
    static final short INIT_VERSION = 4;
    /** The last version of the older protocol: the next one adds the partition to the transaction by itself. */
    static final short PRODUCE_VERSION = 11;

    public static void main(String[] arguments) throws Exception {
        String[] address = arguments[0].split(":");
        try (Socket socket = new Socket(address[0], Integer.parseInt(address[1]))) {
            InitProducerIdResponseData producer = initialised(socket, arguments[1]);
            ProduceResponseData.PartitionProduceResponse answer = produced(socket, arguments[1], arguments[2], producer);
            Errors error = Errors.forCode(answer.errorCode());
            System.out.println(error == Errors.NONE ? Long.toString(answer.baseOffset()) : error.name());
        }
    }

    /** A coordinator that was never asked may not be there yet. */
    static InitProducerIdResponseData initialised(Socket socket, String transactionalId) throws Exception {
        InitProducerIdRequestData asked = new InitProducerIdRequestData().setTransactionalId(transactionalId).setTransactionTimeoutMs(60000)
            .setProducerId(-1).setProducerEpoch((short) -1);
        for (int attempt = 0; ; attempt++) {
            InitProducerIdResponseData answer = new InitProducerIdResponseData(
                ask(socket, ApiKeys.INIT_PRODUCER_ID, INIT_VERSION, asked), INIT_VERSION);
            if (answer.errorCode() == Errors.NONE.code()) return answer;
            if (attempt == 100) throw new IllegalStateException(Errors.forCode(answer.errorCode()).name());
            Thread.sleep(100);
        }
    }

    static ProduceResponseData.PartitionProduceResponse produced(
            Socket socket, String transactionalId, String topic, InitProducerIdResponseData producer) throws Exception {
        MemoryRecords records = MemoryRecords.withTransactionalRecords(Compression.NONE, producer.producerId(), producer.producerEpoch(), 0,
            new SimpleRecord(System.currentTimeMillis(), "k".getBytes(StandardCharsets.UTF_8), "hangs".getBytes(StandardCharsets.UTF_8)));
        ProduceRequestData.TopicProduceDataCollection topics = new ProduceRequestData.TopicProduceDataCollection();
        topics.add(new ProduceRequestData.TopicProduceData().setName(topic).setPartitionData(
            List.of(new ProduceRequestData.PartitionProduceData().setIndex(0).setRecords(records))));
        ProduceRequestData asked = new ProduceRequestData().setTransactionalId(transactionalId).setAcks((short) -1).setTimeoutMs(10000)
            .setTopicData(topics);
        ProduceResponseData answer = new ProduceResponseData(ask(socket, ApiKeys.PRODUCE, PRODUCE_VERSION, asked), PRODUCE_VERSION);
        return answer.responses().iterator().next().partitionResponses().get(0);
    }

    /** The answer's bytes behind its header: a correlation id and, in these versions, no tagged fields. */
    static ByteBufferAccessor ask(Socket socket, ApiKeys key, short version, ApiMessage request) throws Exception {
        ByteBuffer header = MessageUtil.toByteBufferAccessor(new RequestHeader(key, version, "hanging", 1).data(),
            key.requestHeaderVersion(version)).buffer();
        ByteBuffer body = MessageUtil.toByteBufferAccessor(request, version).buffer();
        DataOutputStream to = new DataOutputStream(socket.getOutputStream());
        to.writeInt(header.remaining() + body.remaining());
        to.write(bytes(header));
        to.write(bytes(body));
        to.flush();
        DataInputStream from = new DataInputStream(socket.getInputStream());
        byte[] frame = new byte[from.readInt()];
        from.readFully(frame);
        int headerBytes = key.responseHeaderVersion(version) == 0 ? 4 : 5;
        return new ByteBufferAccessor(ByteBuffer.wrap(frame, headerBytes, frame.length - headerBytes).slice());
    }

    static byte[] bytes(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }
}
