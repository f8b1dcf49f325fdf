// Package outage keeps the log of a process short while a dependency is unavailable, however many partitions,
// readers and workers are affected by the same fault.
//
// # Dependencies
//
// The transports (redisx.Runner, transport.Conn) report the outcome of what they send. Each dependency has one state:
//
//	           Failed: "waiting for redis"            Succeeded: "connected to redis"
//	Unknown ───────────────────────────────▶ Waiting ───────────────────────────────▶ Available
//	   └──────────────── Succeeded, no line ───────────────────────────────────────────▶ │ ▲
//	                                                             Failed: "redis unavailable" │ │ "redis available again"
//	                                                                                     ▼ │
//	                                                                                Unavailable
//
// A change of state is logged once, and a lasting outage once a minute, with the number of failures by operation.
// An outage is over when an operation has succeeded and none has failed for three seconds. A dependency of which a part
// is unavailable (one master of a cluster) is therefore unavailable until that part is back. If the dependency fails again within
// a minute, the required time without failures doubles, up to a minute.
//
// # Lines
//
// Logger limits all other warnings and errors, and info lines about a partition, an instance or a limit. Of the lines with
// the same message one is written per minute, or ten if each names another instance or limit. The others are counted, and at the
// end of the minute the latest of them is written with the number of repetitions. All other lines pass. In all lines, strings and errors
// of more than 1 KiB are cut.
//
// The owner of a Reporter must run Run, which writes due lines every second; without it no outage ends.
package outage
