package permissions

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNATSPermissionsInDeploymentsAreGenerated(t *testing.T) {
	t.Parallel()
	const path = "../../deployments/nats-permissions.conf"
	have, err := os.ReadFile(path)
	if want := NATSFile(transport.DefaultNamespace); err != nil || string(have) != want {
		t.Errorf("%s is not what `go run ./cmd/pawl permissions nats` prints (%v)", path, err)
	}
}

func TestSubjectsAreComparedWithTheirWildcards(t *testing.T) {
	t.Parallel()
	for _, k := range []struct {
		a, b            string
		covers, overlap bool
	}{
		{"a.b", "a.b", true, true}, {"a.*", "a.b", true, true}, {"a.b", "a.*", false, true}, {"a.>", "a.b.c", true, true}, {"a.>", "a", false, false},
		{"a.*", "a.>", false, true}, {"a.>", "a.*", true, true}, {"a.*.c", "a.b.*", false, true}, {"a.b", "a.c", false, false}, {"a.*", "a.b.c", false, false},
		{">", "a.>", true, true}, {"a.b.>", "a.b", false, false},
	} {
		if covers(k.a, k.b) != k.covers || overlap(k.a, k.b) != k.overlap || overlap(k.b, k.a) != k.overlap {
			t.Errorf("%s and %s: covers %t, overlap %t", k.a, k.b, covers(k.a, k.b), overlap(k.a, k.b))
		}
	}
}

// logged collects the log messages of a server about permissions.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (l *logged) Errorf(format string, v ...any) {
	line := fmt.Sprintf(format, v...)
	if strings.Contains(line, "Violation") {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, line)
	}
}

func (l *logged) Warnf(format string, v ...any) { l.Errorf(format, v...) }
func (*logged) Noticef(string, ...any)          {}
func (*logged) Fatalf(string, ...any)           {}
func (*logged) Debugf(string, ...any)           {}
func (*logged) Tracef(string, ...any)           {}

func (l *logged) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// secured is a nats-server with the users of NATSFile.
type secured struct {
	t   *testing.T
	srv *server.Server
	log *logged
}

// secure starts a server whose configuration includes the file and three further users: admin has all permissions, client is a client with
// the default inbox prefix of NATS, and publisher may only publish inputs.
func secure(t *testing.T, namespaces ...string) *secured {
	t.Helper()
	for _, ns := range namespaces {
		for _, r := range transport.Roles() {
			t.Setenv(NATSPasswordVariable(ns, r), "secret-"+NATSUser(ns, r))
		}
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"nats-permissions.conf": NATSFile(namespaces...), "nats.conf": "include nats-permissions.conf\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o, err := server.ProcessConfigFile(filepath.Join(dir, "nats.conf"))
	if err != nil {
		t.Fatal(err)
	}
	s := &secured{t: t, log: &logged{}}
	s.srv = natstest.Start(t, func(with *server.Options) {
		p, _ := transport.PermissionsOf("default", transport.RoleClient, func(transport.Role) string { return "_INBOX" })
		with.Users = slices.Concat(o.Users, []*server.User{
			{Username: "admin", Password: "secret-admin"},
			limitedUser("client", p.Publish, p.Subscribe),
			limitedUser("publisher", []string{"pawl.default.to.>"}, []string{NATSInbox("default", transport.RoleClient) + ".>"}),
		})
	})
	s.srv.SetLogger(s.log, false, false)
	return s
}

func limitedUser(name string, publish, subscribe []string) *server.User {
	return &server.User{Username: name, Password: "secret-" + name, Permissions: &server.Permissions{
		Publish: &server.SubjectPermission{Allow: publish}, Subscribe: &server.SubjectPermission{Allow: subscribe},
	}}
}

func (s *secured) dial(user, inbox string) *nats.Conn {
	s.t.Helper()
	nc, err := transport.Dial(s.srv.ClientURL(), nats.UserInfo(user, "secret-"+user), nats.CustomInboxPrefix(inbox),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(natstest.Closer(nc))
	return nc
}

func (s *secured) as(ns string, r transport.Role) *nats.Conn {
	return s.dial(NATSUser(ns, r), NATSInbox(ns, r))
}

func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(stop)
	return ctx
}

func TestNATSUsersHaveExactlyThePermissionsOfTheirRole(t *testing.T) {
	s := secure(t, "default", "other")
	for _, ns := range []string{"default", "other"} {
		for _, r := range transport.Roles() {
			if got, err := CheckNATS(soon(t), s.as(ns, r), ns, r); err != nil || len(got) > 0 {
				t.Errorf("%s of %s: %v, %v", r, ns, got, err)
			}
		}
	}
	shared := s.dial("client", "_INBOX") // without a prefix of its own
	got, err := CheckNATS(soon(t), shared, "default", transport.RoleOperator)
	want := []Finding{
		{"nats", Lacking, "publish", "$JS.API.STREAM.INFO.PAWL-default-OBJECTS"},
		{"nats", Lacking, "publish", "pawl.default.drain"}, {"nats", Lacking, "publish", "pawl.default.request.*.admin"},
		{"nats", Lacking, "publish", "pawl.default.to.*.operate.>"}, {"nats", Lacking, "publish", "pawl.default.to.*.purge"},
		{"nats", Lacking, "publish", "pawl.default.workers"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("a client as an operator: %v, %v", got, err)
	}
	got, err = CheckNATS(soon(t), s.dial("admin", "_INBOX"), "default", transport.RoleClient)
	if want := []Finding{{"nats", Extra, "publish", ">"}, {"nats", Extra, "subscribe", ">"}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("a user without permissions as a client: %v, %v", got, err)
	}
	if _, err := CheckNATS(soon(t), s.dial(NATSUser("default", transport.RoleClient), "_INBOX"), "default", transport.RoleClient); !errors.Is(err, transport.ErrPermission) || !strings.Contains(err.Error(), "--nats-inbox-prefix") {
		t.Errorf("with another inbox prefix: %v", err)
	}
}

// Traps: a subject that roles share, and an inbox prefix that roles share.
func TestEachRoleIsRefusedWhatOthersDo(t *testing.T) {
	s := secure(t, "default", "other")
	everyone := []string{
		"pawl.other.to.a.event.x", "pawl.other.own.a.done", "pawl.other.request.0.read", "pawl.other.task.q", "pawl.other.doorbell.0", "orders.ship",
		"$JS.API.STREAM.DELETE.PAWL-default-INPUTS", "$JS.API.STREAM.INFO.PAWL-other-INPUTS", "$JS.API.STREAM.MSG.GET.PAWL-other-INPUTS",
		"$JS.API.CONSUMER.CREATE.PAWL-other-TASKS.x", "$JS.API.STREAM.CREATE.PAWL-other-INPUTS", "_INBOX_other_client.x", "_INBOX.x",
	}
	inputs := []string{"pawl.default.to.a.start.x", "pawl.default.to.a.event.x", "pawl.default.to.a.cancel"}
	operator := []string{"pawl.default.to.a.purge", "pawl.default.request.0.admin"}
	internal := []string{
		"pawl.default.own.a.start.x", "pawl.default.own.a.event.x", "pawl.default.own.a.cancel", "pawl.default.own.a.done", "pawl.default.in.0.to.a.event.x",
		"pawl.default.task.q", "pawl.default.hint.w", "pawl.default.limit.0", "pawl.default.notice", "pawl.default.owner.0",
		"$JS.API.STREAM.MSG.GET.PAWL-default-INPUTS", "$JS.API.STREAM.PURGE.PAWL-default-INPUTS", "$JS.API.CONSUMER.CREATE.PAWL-default-INPUTS.x",
	}
	pulls := []string{"$JS.API.CONSUMER.MSG.NEXT.PAWL-default-TASKS.q", "$JS.ACK.PAWL-default-TASKS.q.1.1.1.1.1", "pawl.default.doorbell.0"}
	for r, publish := range map[transport.Role][]string{
		transport.RoleOrchestrator: slices.Concat(everyone, inputs, operator, pulls),
		transport.RoleWorker:       slices.Concat(everyone, inputs, operator, internal, []string{"pawl.default.request.0.read", "_INBOX_default_client.x"}),
		transport.RoleClient:       slices.Concat(everyone, operator, internal, pulls, []string{"pawl.default.workers", "_INBOX_default_client.x"}),
		transport.RoleEvents:       slices.Concat(everyone, operator, internal, pulls, []string{inputs[0], inputs[2], "pawl.default.request.0.read"}),
		transport.RoleOperator:     slices.Concat(everyone, internal, pulls),
	} {
		subscribe := []string{">", "pawl.>", "pawl.default.>", "pawl.default.to.>", "pawl.default.own.>", "pawl.other.owner.*", "_INBOX.>", "_INBOX_other_" + string(r) + ".>"}
		for _, other := range transport.Roles() {
			if other != r {
				subscribe = append(subscribe, NATSInbox("default", other)+".>")
			}
		}
		nc := s.as("default", r)
		for _, subject := range publish {
			if err := nc.Publish(subject, nil); err != nil {
				t.Fatal(err)
			}
			s.refused(nc, r, "Publish", subject)
		}
		for _, subject := range subscribe {
			if _, err := nc.SubscribeSync(subject); err != nil {
				t.Fatal(err)
			}
			s.refused(nc, r, "Subscription", subject)
		}
	}
}

func (s *secured) refused(nc *nats.Conn, r transport.Role, what, subject string) {
	s.t.Helper()
	if err := nc.Flush(); err != nil {
		s.t.Fatal(err)
	}
	want := fmt.Sprintf("Permissions Violation for %s to %q", what, subject)
	if err := nc.LastError(); err == nil || !strings.Contains(err.Error(), want) {
		s.t.Errorf("%s is not refused: %s to %s (last: %v)", r, what, subject, err)
	}
}
