// Command natsd is a nats-server with JetStream on disk, as a process that a test can kill: natsd PORT DIR or, as a member
// of a cluster, natsd PORT DIR NAME ROUTE ROUTES, where ROUTE is its own address for the other servers and ROUTES are the
// addresses of all, separated by commas.
//
// NATSD_TLS=DIR enables TLS with DIR/cert.pem and DIR/key.pem for clients that request it. NATSD_SYNC=interval syncs the
// files periodically, which is the default of nats-server. NATSD_STORE=DIR stores the files in DIR.
package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
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
	if len(args) != 2 && len(args) != 5 {
		return fmt.Errorf("usage: natsd PORT DIR [NAME ROUTE ROUTES], got %q", args)
	}
	port, err := strconv.Atoi(args[0])
	if err != nil {
		return fmt.Errorf("port: %w", err)
	}
	options := &server.Options{
		Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: args[1], NoSigs: true,
		SyncAlways:        os.Getenv("NATSD_SYNC") != "interval", // so that kill -9 loses nothing that was acknowledged
		JetStreamMaxStore: 1 << 40,                               // streams reserve their maximum size
	}
	if dir := os.Getenv("NATSD_STORE"); dir != "" {
		options.StoreDir = dir
	}
	if dir := os.Getenv("NATSD_TLS"); dir != "" {
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
		if err != nil {
			return err
		}
		options.TLSConfig, options.AllowNonTLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, true
	}
	if len(args) == 5 {
		if err := join(options, args[2], args[3], args[4]); err != nil {
			return err
		}
	}
	srv, err := server.NewServer(options)
	if err != nil {
		return err
	}
	srv.ConfigureLogger()
	srv.Start()
	if !srv.ReadyForConnections(time.Minute) {
		return fmt.Errorf("not ready after a minute")
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	<-stop
	srv.Shutdown()
	srv.WaitForShutdown()
	return nil
}

// join makes the server a member of a cluster, in which two of three disks store every acknowledged message.
func join(o *server.Options, name, route, routes string) error {
	host, port, err := net.SplitHostPort(route)
	if err != nil {
		return fmt.Errorf("route: %w", err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return fmt.Errorf("route: %w", err)
	}
	o.ServerName, o.SyncAlways = name, false
	o.Cluster = server.ClusterOpts{Name: "pawl-test", Host: host, Port: n}
	o.Routes = server.RoutesFromStr("nats://" + strings.ReplaceAll(routes, ",", ",nats://"))
	return nil
}
