// Package embedded runs the two servers that Pawl needs together with the program that uses them: nats-server as a library in this
// process, and Redis as a child process if it is installed on the machine, otherwise in memory.
//
//	┌──────────── this process ────────────┐
//	│  nats-server (JetStream, dir/nats)   │ loopback TCP
//	│  miniredis, if none is installed ────┼─ loopback TCP, state ends with the process
//	└──────────────┬───────────────────────┘
//	               └─ child: redis-server or valkey-server (AOF, dir/redis), loopback TCP
//
// # Start and stop
//
// Start first locks the directory, because two processes that append to the same files would corrupt them. Stop ends the servers in the
// reverse order of their start, and returns when they and all goroutines have ended. If the process is killed, the kernel releases the
// lock and, on Linux, kills the child; the kernel still writes the data that Redis had written to the disk, and the next Start reads it.
// On other systems a child may outlive a killed parent and keep the lock, which the next Start reports.
//
// Done and Err report a server that ends unexpectedly. It is not restarted.
//
// Neither server requires a password. They listen on the loopback interface only, which every user of the machine can access, so this
// package is meant for development, tests and single-user machines.
//
// The API of this package may change.
package embedded
