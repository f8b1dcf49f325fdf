// Command natsd is a nats-server with JetStream on disk, as a process that a test can
// kill: natsd PORT DIR.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "natsd:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: natsd PORT DIR, got %q", args)
	}
	port, err := strconv.Atoi(args[0])
	if err != nil {
		return fmt.Errorf("port: %w", err)
	}
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: args[1], NoSigs: true,
		SyncAlways: true, // so that kill -9 loses nothing that was acknowledged
	})
	if err != nil {
		return err
	}
	srv.ConfigureLogger()
	srv.Start()
	if !srv.ReadyForConnections(20 * time.Second) {
		return fmt.Errorf("not ready after 20 s")
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	<-stop
	srv.Shutdown()
	srv.WaitForShutdown()
	return nil
}
