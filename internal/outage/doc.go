// Package outage keeps the log of a process short while something that it depends on is away, however many partitions,
// readers and workers meet the same fault.
//
// # Dependencies
//
// The transports (redisx.Runner, queue.Conn) report the outcome of what they send. Each dependency has one state:
//
//	           Failed: "waiting for redis"            Succeeded: "connected to redis"
//	Unknown ───────────────────────────────▶ Waiting ───────────────────────────────▶ Available
//	   └──────────────── Succeeded, no line ───────────────────────────────────────────▶ │ ▲
//	                                                             Failed: "redis unavailable" │ │ "redis available again"
//	                                                                                     ▼ │
//	                                                                                Unavailable
//
// A change of state is one line, and a state that lasts is one line a minute, with the number of failures by operation.
// An outage is over when something has succeeded and nothing has failed for three seconds, so a dependency of which a part
// is away (one master of a cluster) is unavailable until that part is back. One that fails again within a minute needs twice
// as long a calm each time, up to a minute.
//
// # Lines
//
// Logger limits everything else: of warnings and errors, and of information about a partition, an instance or a gate, with
// the same message one is written a minute, or ten if each names another instance or gate. The others are counted, and the
// minute ends with the latest of them and how often it was repeated. Other lines pass. In all of them a text or an error of more than
// 1 KiB is cut.
//
// The owner of a Reporter runs Run, which writes what is due each second; without it no outage ends.
package outage
