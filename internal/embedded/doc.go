// Package embedded runs the two servers that Pawl needs beside the program that
// uses them: nats-server as a library in the same process, and Redis as a child
// process from the machine's own installation, or else in memory.
//
//	┌──────────── this process ────────────┐
//	│  nats-server (JetStream, dir/nats)   │ loopback TCP
//	│  miniredis, if there is no server ───┼─ loopback TCP, state ends with the process
//	└──────────────┬───────────────────────┘
//	               └─ child: redis-server or valkey-server (AOF, dir/redis), loopback TCP
//
// # Lives and ends
//
// Start holds a lock on the directory first: two processes that appended to the same
// files would ruin them. Stop ends the servers in the reverse order and returns when
// they are gone, with every goroutine joined. If the process is killed, the kernel
// drops the lock and, on Linux, kills the child; the kernel writes to the disk
// what Redis had written, and the next Start reads it. On other systems a child may outlive
// a killed parent, and keeps the lock: the next Start reports it.
//
// A server that ends by itself is reported by Done and Err; it is not started again.
//
// Neither server asks for a password. They listen on the loopback interface only,
// which every user of the machine can reach: this is for development, tests and a
// single machine of one's own.
//
// The API of this package may change.
package embedded
