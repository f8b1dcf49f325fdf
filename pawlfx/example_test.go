package pawlfx_test

import (
	"context"
	"flag"
	"log/slog"
	"os"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"
	"go.uber.org/fx"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/pawlcodec"
	"github.com/pawlrun/pawl/pawlfx"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

var encode = pawl.NewActivity[string, string]("encode")

type encoder struct{ format string }

func (e encoder) encode(_ context.Context, film string) (string, error) {
	return film + "." + e.format, nil
}

func ExampleRun() {
	os.Exit(pawlfx.Run(slog.Default(), // until SIGINT or SIGTERM
		pawlfx.Connections(
			func() (*nats.Conn, error) { return nats.Connect(nats.DefaultURL) },
			func() redis.UniversalClient { return redis.NewClient(&redis.Options{Addr: "localhost:6379"}) },
		),
		pawlfx.Activities(func() []pawl.ActivityBinding {
			return []pawl.ActivityBinding{encode.Do(encoder{format: "mp4"}.encode)}
		}),
		pawlfx.Worker(worker.Config{Concurrency: 8}),
		pawlfx.HTTP("localhost:8080"), // health and metrics
	))
}

// New is for programs that run the app themselves, such as in a test or together with the services of other packages.
func ExampleNew() {
	app := pawlfx.New(slog.Default(),
		pawlfx.Connections(
			func() (*nats.Conn, error) { return nats.Connect(nats.DefaultURL) },
			func() redis.UniversalClient { return redis.NewClient(&redis.Options{Addr: "localhost:6379"}) },
		),
		pawlfx.Activities(func(e encoder) []pawl.ActivityBinding { return []pawl.ActivityBinding{encode.Do(e.encode)} }),
		fx.Supply(encoder{format: "mp4"}), // constructors have the dependencies of the program as arguments
		pawlfx.Worker(worker.Config{Concurrency: 8}),
	)
	ctx := context.Background()
	if err := app.Start(ctx); err != nil {
		slog.Error("not started", "error", err)
		return
	}
	<-app.Wait()
	_ = app.Stop(ctx) // running activities may finish
}

func ExampleOrchestrator() {
	os.Exit(pawlfx.Run(slog.Default(),
		pawlfx.Connections(
			func() (*nats.Conn, error) { return nats.Connect(nats.DefaultURL) },
			func() redis.UniversalClient { return redis.NewClient(&redis.Options{Addr: "localhost:6379"}) },
		),
		pawlfx.Orchestrations(func() []pawl.OrchestrationBinding {
			return []pawl.OrchestrationBinding{film.Do(makeFilm)}
		}),
		pawlfx.Orchestrator(orchestrator.Config{Namespace: "films"}),
	))
}

// serving is a program that runs orchestrations and serves their namespace with the options.
func serving(addr string, opts ...pawlfx.HTTPOption) int {
	return pawlfx.Run(slog.Default(),
		pawlfx.Connections(
			func() (*nats.Conn, error) { return nats.Connect(nats.DefaultURL) },
			func() redis.UniversalClient { return redis.NewClient(&redis.Options{Addr: "localhost:6379"}) },
		),
		pawlfx.Orchestrations(func() []pawl.OrchestrationBinding { return nil }), // those of the program
		pawlfx.Orchestrator(orchestrator.Config{}),
		pawlfx.HTTP(addr, opts...),
	)
}

// On an address that is not a loopback address the API requires users: lines such as "<token> operator ann".
func ExampleHTTPTokens() {
	os.Exit(serving("0.0.0.0:7295", pawlfx.HTTPTokens("/etc/pawl/tokens")))
}

// Users are those of an identity provider, and their roles are in the claim "roles".
func ExampleHTTPOIDC() {
	os.Exit(serving("0.0.0.0:7295", pawlfx.HTTPOIDC("https://login.example.org", "pawl", "roles")))
}

func ExampleHTTPSignIn() {
	os.Exit(serving("0.0.0.0:7295",
		pawlfx.HTTPOIDC("https://login.example.org", "pawl", ""),
		pawlfx.HTTPSignIn("pawl-console", "/etc/pawl/oidc-secret"))) // browsers sign in at the issuer
}

// The file has {"rules": […]}, each such as {"type": "com.shop.approved", "event": "approved", "id": "order-{subject}"}.
func ExampleHTTPTriggers() {
	os.Exit(serving("127.0.0.1:7295", pawlfx.HTTPTriggers("/etc/pawl/triggers.json")))
}

// Profiles have no access control: their address is one of the machine itself.
func ExampleProfiles() {
	os.Exit(pawlfx.Run(slog.Default(), pawlfx.Profiles("127.0.0.1:7296", pawlfx.ProfilesSetting("--pprof")))) // and the other options of the program
}

// The orchestrator, the worker and the HTTP API of the program encrypt payloads with the keys of a file.
func ExamplePayloads() {
	keys, err := pawlcodec.FileKeys("/etc/pawl/keys")
	if err != nil {
		panic(err)
	}
	codec, err := pawlcodec.New(pawlcodec.Options{Keys: keys})
	if err != nil {
		panic(err)
	}
	os.Exit(pawlfx.Run(slog.Default(),
		pawlfx.Payloads(codec),
		pawlfx.Connections(
			func() (*nats.Conn, error) { return nats.Connect(nats.DefaultURL) },
			func() redis.UniversalClient { return redis.NewClient(&redis.Options{Addr: "localhost:6379"}) },
		),
		pawlfx.Activities(func() []pawl.ActivityBinding {
			return []pawl.ActivityBinding{encode.Do(encoder{format: "mp4"}.encode)}
		}),
		pawlfx.Worker(worker.Config{}),
	))
}

// If the address is in use, the error names the flag that changes it.
func ExampleHTTPSetting() {
	addr := flag.String("http", "127.0.0.1:7295", "address of the console and the API")
	flag.Parse()
	os.Exit(serving(*addr, pawlfx.HTTPSetting("--http")))
}
