package pawlfx

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"time"

	"go.uber.org/fx"

	"github.com/pawlrun/pawl/internal/gateway"
)

// Profiles serves the profiles of the process at /debug/pprof/ of a TCP address, without access control. The address should therefore be a
// loopback address such as "127.0.0.1:7296". An address without a host is on the loopback interface. With an empty address, Profiles serves
// nothing. An address in use is an error of the start.
func Profiles(addr string, opts ...ProfilesOption) fx.Option {
	if addr == "" {
		return fx.Options()
	}
	return fx.Module("pawl.profiles", fx.Invoke(func(lc fx.Lifecycle, log *slog.Logger) {
		p := &profiles{log: log, ended: make(chan struct{})}
		for _, o := range opts {
			o(p)
		}
		lc.Append(fx.StartStopHook(func(ctx context.Context) error { return p.start(ctx, addr) }, p.stop))
	}))
}

// ProfilesOption is an option of Profiles.
type ProfilesOption func(*profiles)

// ProfilesSetting sets the name of the setting that contains the address, such as a flag, for the error of an address in use.
func ProfilesSetting(name string) ProfilesOption {
	return func(p *profiles) { p.setting = name }
}

type profiles struct {
	log     *slog.Logger
	setting string
	server  http.Server
	ended   chan struct{}
}

func (p *profiles) start(ctx context.Context, addr string) error {
	l, err := gateway.Listen(ctx, addr, p.setting)
	if err != nil {
		return fmt.Errorf("pawlfx: serve profiles: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	p.server = http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second} //nolint:exhaustruct // no write timeout, because requests determine the duration of a profile
	p.log.Info("serving profiles", "address", l.Addr().String())
	go func() {
		defer close(p.ended)
		if err := p.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			p.log.Error("profiles not served", "error", err)
		}
	}()
	return nil
}

// stop closes the server at once, which interrupts profiles that are being written.
func (p *profiles) stop() error {
	err := p.server.Close()
	<-p.ended
	return err
}
