// Package pawlotel traces Pawl with OpenTelemetry. It uses the API alone: the program chooses the SDK and the exporter.
//
//	tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithIDGenerator(pawlotel.IDGenerator{}))
//
//	tracer, err := pawlotel.NewTracer(tp)                                                   // orchestrators
//	orchestrator.Config{Tracer: tracer, …}
//	worker.Config{Interceptors: []worker.Interceptor{pawlotel.WorkerInterceptor(tp)}, …}     // workers
//	client.Options{Interceptors: []client.Interceptor{pawlotel.ClientInterceptor(tp)}, …}    // clients
//
// An orchestrator emits the spans of an instance from its history, after each commit, with ids that are derived from history. So
// replay, repeats and crashes lead to no second span, and no span lacks its parent. That needs the IDGenerator in the provider.
// Decision 71 describes the spans, docs/guide/traces.md their use.
package pawlotel
