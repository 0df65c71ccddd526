"""Captures to columns: any pcap or pcapng, ours or a stranger's."""
