// Package pawlfx provides fx modules for orchestrators and workers, for the connections that they share, and for an HTTP server
// that reports their state and serves the API of the namespace. A program is a list of modules:
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
// # The contents of the container
//
//	*slog.Logger                          supplied by Run; Config.Logger takes precedence
//	context.Context                       ends when the program is stopped; provided by Run
//	*nats.Conn, redis.UniversalClient     provided by Connections, or by the program itself
//	*prometheus.Registry                  provided by Run; also as Registerer and Gatherer
//	*pawlcodec.Codec                      provided by Payloads
//	*queue.Local                          provided by Run; through it an orchestrator and a worker of the program exchange tasks without NATS
//	group "pawl.orchestrations"           filled by Orchestrations
//	group "pawl.activities"               filled by Activities
//
// # The order of starting and stopping
//
//	connections, HTTP ─▶ orchestrator ─▶ worker     stopped in reverse order
//
// Orchestrator and worker are stopped before their connections are closed: they hand over
// partitions and drain activities. HTTP is served until the end, so that a draining program
// passes its liveness probe. /readyz answers 503 until the orchestrator and the worker are
// ready, and again as soon as they are being stopped.
package pawlfx
