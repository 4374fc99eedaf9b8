//! The rules for epochs, sequences and transactions, each as Apache Kafka 4.4 answers.
