// Package direct has everything that orchestration code must not do, done in it.
package direct

import (
	"context"
	crand "crypto/rand"
	"database/sql"
	"fmt"
	"log"
	"log/slog"
	"math/rand"
	randv2 "math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/pawlrun/pawl"
)

var (
	Order = pawl.NewOrchestration[int, int]("order")
	Step  = pawl.NewActivity[int, int]("step")
)

var bound = Order.Do(func(ctx *pawl.Context, n int) (int, error) {
	start := time.Now()         // want `^time\.Now returns another time at every replay; use pawl\.Now\(ctx\) \[time\]$`
	_ = time.Since(start)       // want `time\.Since .*\[time\]`
	_ = time.Until(start)       // want `time\.Until .*\[time\]`
	time.Sleep(time.Second)     // want `time\.Sleep waits by the process's clock.*use pawl\.Sleep\(ctx, d\) \[time\]`
	_ = time.After(time.Second) // want `time\.After .*use pawl\.After`
	_ = time.Tick(time.Second)  // want `time\.Tick `
	_ = time.NewTimer(1)        // want `time\.NewTimer `
	_ = time.NewTicker(1)       // want `time\.NewTicker `
	time.AfterFunc(1, nothing)  // want `time\.AfterFunc `
	_ = start.Local()           // want `time\.Time\.Local is another zone on another machine`
	_ = start.In(time.Local)    // want `time\.Local is another zone`
	return n, nil
})

func nothing() {}

func random(ctx *pawl.Context, n int) (int, error) {
	_ = rand.Int()                      // want `math/rand\.Int .*use pawl\.Rand\(ctx\) \[random\]`
	_ = randv2.N(10)                    // want `math/rand\.N .*\[random\]`
	rand.Shuffle(3, func(i, j int) {})  // want `math/rand\.Shuffle `
	_, _ = crand.Read(make([]byte, 8))  // want `crypto/rand\.Read .*pawl\.NewID`
	_, _ = crand.Int(crand.Reader, nil) // want `crypto/rand\.Int ` `crypto/rand\.Reader `
	_ = uuid.New()                      // want `uuid\.New returns another id at every replay; use pawl\.NewID\(ctx\), or pawl\.SideEffect for an id of this kind \[random\]`
	_ = uuid.NewString()                // want `uuid\.NewString `
	return n, nil
}

func concurrent(ctx *pawl.Context, n int) (int, error) {
	ch := make(chan int, 1)
	go nothing()   // want `a go statement runs in an order that no history records.*use pawl\.Go or pawl\.Map \[go\]`
	ch <- 1        // want `a send on a channel .*\[channel\]`
	n = <-ch       // want `a receive from a channel `
	close(ch)      // want `closing a channel `
	for range ch { // want `a loop over a channel `
	}
	select { // want `a select statement .*pawl\.Select`
	case n = <-ch:
		<-ch // want `a receive from a channel `
	case ch <- n:
	default:
	}
	var mu sync.Mutex
	mu.Lock()         // want `sync\.Mutex\.Lock shares memory .*\[sync\]`
	defer mu.Unlock() // want `sync\.Mutex\.Unlock `
	var wg sync.WaitGroup
	wg.Add(1) // want `sync\.WaitGroup\.Add `
	wg.Wait() // want `sync\.WaitGroup\.Wait waits for a goroutine`
	var once sync.Once
	once.Do(nothing) // want `sync\.Once\.Do `
	var pool sync.Pool
	_ = pool.Get() // want `sync\.Pool\.Get `
	var count atomic.Int64
	count.Add(1) // want `sync/atomic\.Int64\.Add .*\[sync\]`
	return n, nil
}

type guarded struct {
	sync.Mutex
	n int
}

func (g *guarded) orchestrate(ctx *pawl.Context, n int) (int, error) {
	g.Lock() // want `sync\.Mutex\.Lock `
	return g.n, nil
}

func world(ctx *pawl.Context, db *sql.DB) (int, error) {
	_ = os.Getenv("HOME")              // want `os\.Getenv .*in the orchestration's input, or .*\[io\]`
	_, _ = os.ReadFile("x")            // want `os\.ReadFile .*do it in an activity \[io\]`
	_ = os.Args                        // want `os\.Args `
	fmt.Fprintln(os.Stderr, "x")       // want `os\.Stderr `
	fmt.Println("x")                   // want `fmt\.Println is repeated at every replay; use pawl\.Logger`
	log.Printf("x")                    // want `log\.Printf is repeated at every replay`
	slog.Info("x")                     // want `log/slog\.Info is repeated at every replay`
	_ = exec.Command("ls").Run()       // want `os/exec\.Command ` `os/exec\.Cmd\.Run `
	_, _ = net.Dial("tcp", "x:1")      // want `net\.Dial repeats its I/O.*\[io\]`
	_, _ = http.Get("http://x")        // want `net/http\.Get `
	_, _ = http.DefaultClient.Get("")  // want `net/http\.DefaultClient ` `net/http\.Client\.Get `
	_ = db.QueryRow("select 1").Scan() // want `database/sql\.DB\.QueryRow ` `database/sql\.Row\.Scan `
	_ = db.PingContext(context.TODO()) // want `database/sql\.DB\.PingContext ` `context\.TODO .*\[context\]`
	bg := context.Background()         // want `context\.Background is for calls that do I/O.*an activity`
	_, _ = context.WithTimeout(bg, 1)  // want `context\.WithTimeout .*pawl\.Within`
	return 0, nil
}

func fatal(ctx *pawl.Context) {
	runtime.LockOSThread()        // want `runtime\.LockOSThread locks the coroutine to a thread.*\[runtime\]`
	debug.SetPanicOnFault(true)   // want `runtime/debug\.SetPanicOnFault `
	_ = runtime.NumCPU()          // want `runtime\.NumCPU differs from process to process`
	defer runtime.Goexit()        // want `runtime\.Goexit ends the turn instead of the function; return`
	defer func() { os.Exit(1) }() // want `os\.Exit ends the process`
}

var (
	counter int
	cache   = map[string]int{}
	latest  struct{ at []int }
)

func globals(ctx *pawl.Context, n int) (int, error) {
	counter++               // want `a write to direct\.counter is repeated at every replay.*\[global\]`
	cache["x"] = n          // want `a write to direct\.cache `
	delete(cache, "x")      // want `a write to direct\.cache `
	latest.at[n], n = n, 1  // want `a write to direct\.latest `
	for counter = range n { // want `a write to direct\.counter `
	}
	http.DefaultClient = nil // want `a write to http\.DefaultClient ` `net/http\.DefaultClient `
	local := cache
	_ = local["x"] + counter
	return n, nil
}

func closures(ctx *pawl.Context, in []int) ([]int, error) {
	_ = pawl.Go(ctx, func(*pawl.Context) (int, error) {
		return int(time.Now().Unix()), nil // want `time\.Now `
	})
	defer func() {
		_ = time.Now() // want `time\.Now `
	}()
	late := func() bool { return time.Now().IsZero() } // want `time\.Now `
	_ = pawl.Await(ctx, late)
	return pawl.Map(ctx, 3, in, func(ctx *pawl.Context, n int) (int, error) {
		return n + rand.Int(), nil // want `math/rand\.Int `
	})
}

// register is no orchestration code; the literal in it is.
func register() []pawl.Binding { // want register:`reaches a write to direct\.counter, time\.Now`
	counter++
	at := time.Now()
	return []pawl.Binding{Order.Do(func(ctx *pawl.Context, n int) (int, error) {
		return int(time.Since(at)), nil // want `time\.Since `
	})}
}
