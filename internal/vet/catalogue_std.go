package vet

// The parts of the standard library that orchestration code must not use. Everything else is free.

func clocks() []entry {
	const (
		again = "returns another time at every replay"
		block = "waits by the process's clock, which no history records, and blocks the turn"
		zone  = "is another zone on another machine"
	)
	return []entry{
		{"time", "Now", hazard{kind: kindTime, reason: again, instead: "use pawl.Now(ctx)"}},
		{"time", "Since Until", hazard{kind: kindTime, reason: again, instead: "subtract from or with pawl.Now(ctx)"}},
		{"time", "Sleep", hazard{kind: kindTime, reason: block, instead: "use pawl.Sleep(ctx, d)"}},
		{"time", "After Tick NewTimer NewTicker AfterFunc", hazard{kind: kindTime, reason: block, instead: "use pawl.After(ctx, d), in a Select if need be"}},
		{"time", "Local Time.Local", hazard{kind: kindTime, reason: zone, instead: "use time.UTC or a location that is named"}},
		{"context", "WithTimeout* WithDeadline*", hazard{kind: kindTime, reason: block, instead: "use pawl.After(ctx, d) in a Select, or pawl.Within(d) at the call"}},
	}
}

func randomness() []entry {
	const (
		again = "returns another value at every replay"
		keys  = "generates another key at every replay"
		seed  = "hashes differently in every process"
		rand  = "use pawl.Rand(ctx)"
		work  = "use an activity"
	)
	return []entry{
		{"math/rand", "New NewSource NewPCG NewChaCha8 NewZipf Rand.* Zipf.* PCG.* ChaCha8.* Source.* Source64.*", hazard{kind: free}},
		{"math/rand", "*", hazard{kind: kindRandom, reason: again, instead: rand}},
		{"crypto/rand", "*", hazard{kind: kindRandom, reason: again, instead: "use pawl.NewID(ctx) or pawl.Rand(ctx), or, for a secret, an activity"}},
		{"crypto/ecdsa", "GenerateKey", hazard{kind: kindRandom, reason: keys, instead: work}},
		{"crypto/ed25519", "GenerateKey", hazard{kind: kindRandom, reason: keys, instead: work}},
		{"crypto/rsa", "Generate*", hazard{kind: kindRandom, reason: keys, instead: work}},
		{"crypto/ecdh", "Curve.GenerateKey", hazard{kind: kindRandom, reason: keys, instead: work}},
		{"crypto/mlkem", "Generate* *.Encapsulate", hazard{kind: kindRandom, reason: keys, instead: work}},
		{"hash/maphash", "MakeSeed Hash.*", hazard{kind: kindRandom, reason: seed, instead: "use hash/fnv or crypto/sha256"}},
		{"reflect", "Value.MapKeys Value.MapRange", hazard{kind: kindMap, reason: "has another order at every replay", instead: "sort the keys first", confined: true}},
	}
}

// guards lists synchronization. It is reported in the author's own code, because memory that is shared with other goroutines is not
// recorded in the history. Inside a library, locks and atomics that guard a cache are free, but waits for other goroutines are not.
func guards() []entry {
	const (
		shared = "shares memory with something that is not in history, and may block the turn"
		waits  = "waits for a goroutine, which no history records, and blocks the turn"
		alone  = "remove it, because siblings never run in parallel; use an activity for state that is shared with others"
		await  = "wait for futures (pawl.All, pawl.Any, pawl.Select) or with pawl.Await"
	)
	return []entry{
		{"sync", "WaitGroup.Go", hazard{kind: kindGo, reason: goReason, instead: goInstead}},
		{"sync", "WaitGroup.Wait Cond.Wait", hazard{kind: kindSync, reason: waits, instead: await}},
		{"sync", "*", hazard{kind: kindSync, reason: shared, instead: alone, confined: true}},
		{"sync/atomic", "*", hazard{kind: kindSync, reason: shared, instead: alone, confined: true}},
		{"context", "Background TODO", hazard{
			kind: kindContext, reason: "is for calls that do I/O, which is repeated at every replay",
			instead: "do it in an activity, which has a context of its own", confined: true,
		}},
		{"context", "AfterFunc", hazard{kind: kindGo, reason: goReason, instead: goInstead}},
	}
}

// Texts about the go statement and functions that replace it.
const (
	goReason  = "runs in an order that no history records"
	goInstead = "use pawl.Go or pawl.Map"
)

func world() []entry {
	const (
		reads  = "reads or changes external state at every replay, which differs"
		blocks = "repeats its I/O at every replay, and blocks the turn"
		prints = "is repeated at every replay"
		act    = "do it in an activity"
		input  = "pass the value in the orchestration's input, or record it with pawl.SideEffect"
		logger = "use pawl.Logger(ctx), which is silent during replay"
	)
	io := func(reason, instead string) hazard { return hazard{kind: kindIO, reason: reason, instead: instead} }
	note := hazard{kind: kindIO, reason: prints, instead: logger, confined: true}
	return []entry{
		{"os", "Is* Expand NewSyscallError FileMode.* PathError.* LinkError.* SyscallError.* Err* ModePerm", hazard{kind: free}},
		{"os", "Exit", hazard{kind: kindRuntime, reason: "ends the process at every replay", instead: "return an error"}},
		{"os", "Getenv LookupEnv Environ Args ExpandEnv Hostname Getpid Getwd", io(reads, input)},
		{"os", "*", io(reads, act)},
		{"os/exec", "Error.* ExitError.* Err*", hazard{kind: free}},
		{"os/exec", "*", io(blocks, act)},
		{"os/signal", "*", io(reads, act)},
		{"os/user", "*", io(reads, act)},
		{"syscall", "Errno.* Signal.*", hazard{kind: free}},
		{"syscall", "*", io(reads, act)},
		{"plugin", "*", io(reads, act)},
		{"io/ioutil", "ReadFile WriteFile ReadDir Temp*", io(reads, act)},
		{"path/filepath", "Walk WalkDir Glob Abs EvalSymlinks", io(reads, act)},
		{"text/template", "ParseFiles ParseGlob Template.ParseFiles Template.ParseGlob", io(reads, act)},
		{"html/template", "ParseFiles ParseGlob Template.ParseFiles Template.ParseGlob", io(reads, act)},
		{"embed", "*", hazard{kind: free}},
		{"net", "Dial* Listen* Lookup* Interface* File* Resolve* DefaultResolver", io(blocks, act)},
		{"net", "Dialer.* ListenConfig.* Resolver.* *Conn.* *Listener.*", io(blocks, act)},
		{"net/http", "Get Head Post PostForm ListenAndServe* Serve ServeTLS DefaultClient DefaultTransport", io(blocks, act)},
		{"net/http", "Client.* Transport.* Server.* RoundTripper.*", io(blocks, act)},
		{"net/smtp", "*", io(blocks, act)},
		{"net/rpc", "*", io(blocks, act)},
		{"net/rpc/jsonrpc", "*", io(blocks, act)},
		{"crypto/tls", "Dial* Listen LoadX509KeyPair Dialer.* Conn.*", io(blocks, act)},
		{"crypto/x509", "SystemCertPool", io(reads, act)},
		{"database/sql", "DB.* Tx.* Conn.* Stmt.* Rows.* Row.* Open*", io(blocks, act)},
		{"database/sql/driver", "*", io(blocks, act)},
		{"log", "Fatal* Logger.Fatal*", hazard{kind: kindRuntime, reason: "ends the process at every replay", instead: "return an error"}},
		{"log", "Print* Panic* Output Logger.Print* Logger.Panic* Logger.Output", note},
		{"log/slog", "Debug* Info* Warn* Error* Log LogAttrs Default", note},
		{"log/syslog", "*", io(blocks, act)},
		{"fmt", "Print Printf Println", note},
		{"fmt", "Scan Scanf Scanln", io(reads, act)},
	}
}

func machine() []entry {
	const differs = "differs from process to process"
	return []entry{
		{"runtime", "LockOSThread", hazard{
			kind: kindRuntime, reason: "locks the coroutine to a thread, which the runtime cannot undo when it parks the instance", instead: "do it in an activity",
		}},
		{"runtime", "Goexit", hazard{kind: kindRuntime, reason: "ends the turn instead of the function", instead: "return"}},
		{"runtime", "NumCPU GOMAXPROCS NumGoroutine NumCgoCall ReadMemStats GC", hazard{
			kind: kindRuntime, reason: differs, instead: "pass the number in the orchestration's input, or record it with pawl.SideEffect",
		}},
		{"runtime/debug", "SetPanicOnFault", hazard{
			kind: kindRuntime, reason: "stays set on a goroutine of the runtime", instead: "do it in an activity",
		}},
		{"runtime/debug", "Set* FreeOSMemory ReadGCStats", hazard{kind: kindRuntime, reason: "changes the whole process at every replay", instead: "do it where the process starts"}},
	}
}
