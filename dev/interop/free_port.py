#!/usr/bin/env python3
"""Prints a port from which so many nodes of Apache Kafka find theirs free: two each, ten from one node to the next. 29092 if it can be.

usage: free_port.py [NODES]
"""
import socket
import sys


def is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 1
needed = [10 * node + offset for node in range(nodes) for offset in (0, 1)]
print(next(port for port in range(29092, 65000, 100) if all(is_free(port + offset) for offset in needed)))
