// Package pawlotel traces Pawl with OpenTelemetry. It uses only the API, so that the program can choose the SDK and the exporter.
//
//	tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithIDGenerator(pawlotel.IDGenerator{}))
//
//	tracer, err := pawlotel.NewTracer(tp)                                                   // orchestrators
//	orchestrator.Config{Tracer: tracer, …}
//	worker.Config{Interceptors: []worker.Interceptor{pawlotel.WorkerInterceptor(tp)}, …}     // workers
//	client.Options{Interceptors: []client.Interceptor{pawlotel.ClientInterceptor(tp)}, …}    // clients
//
// After each commit, an orchestrator emits the spans of an instance, with ids that it derives from the history. So
// replays, repeats and crashes cause neither duplicate spans nor spans without a parent. This requires the IDGenerator in the provider.
// Decision 71 describes the spans, and docs/guide/traces.md their use.
package pawlotel
