/* Open vSwitch's process sends a burst of frames by one sendmmsg(2). When a port's queue drops one of them the kernel
 * ends the call there (packet_snd in net/packet/af_packet.c: ENOBUFS), Open vSwitch offers that one again, which the
 * queue may count again, and then gives the rest of the burst up, which nobody counts. Loaded before it (LD_PRELOAD),
 * this offers each frame once, whatever becomes of the others: what is lost is lost in queues, which count it once.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/socket.h>

int sendmmsg(int descriptor, struct mmsghdr *frames, unsigned int count, int flags)
{
	for (unsigned int done = 0; done < count; done++) {
		ssize_t sent;

		do {
			sent = sendmsg(descriptor, &frames[done].msg_hdr, flags);
		} while (sent < 0 && errno == EINTR);
		if (sent < 0 && errno != ENOBUFS)
			return done ? (int)done : -1;
		frames[done].msg_len = sent < 0 ? 0 : (unsigned int)sent;
	}
	return (int)count;
}
