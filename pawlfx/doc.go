// Package pawlfx has fx modules for fleets: an orchestrator, a worker, the connections
// that they share, and an HTTP server that reports their state, and serves the namespace. A program is a list of them:
//
//	func main() {
//		os.Exit(pawlfx.Run(slog.Default(),
//			pawlfx.Connections(openNATS, openRedis),
//			fx.Provide(payments.New),
//			pawlfx.Activities(func(s *payments.Service) []pawl.ActivityBinding {
//				return []pawl.ActivityBinding{Charge.Do(s.Charge)}
//			}),
//			pawlfx.Worker(worker.Config{Concurrency: 20}),
//			pawlfx.HTTP("127.0.0.1:7295"),
//		))
//	}
//
// # What is in the container
//
//	*slog.Logger                          supplied by Run; Config.Logger goes before
//	context.Context                       ends when the program is stopped; provided by Run
//	*nats.Conn, redis.UniversalClient     provided by Connections, or by the program itself
//	*prometheus.Registry                  provided by Run; also as Registerer and Gatherer
//	*pawlcodec.Codec                      provided by Payloads
//	*queue.Local                          provided by Run: an orchestrator and a worker of the program pass tasks to each other without NATS
//	group "pawl.orchestrations"           filled by Orchestrations
//	group "pawl.activities"               filled by Activities
//
// # The order of starting and stopping
//
//	connections, HTTP ─▶ orchestrator ─▶ worker     and back again at the end
//
// A fleet is stopped before its connections are closed: it hands over its partitions,
// and drains its activities. HTTP is there all the time, so that a program that drains
// is seen to live; /readyz answers 503 until the fleets are ready, and again from the
// moment that stopping begins.
package pawlfx
