package main

import (
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/permissions"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/transport"
)

func TestCheckPermissionsListsLackingAndExtraPermissions(t *testing.T) {
	inbox := permissions.NATSInbox("default", transport.RoleClient)
	srv := natstest.Start(t, func(o *server.Options) {
		p, _ := transport.PermissionsOf("default", transport.RoleClient, func(r transport.Role) string { return permissions.NATSInbox("default", r) })
		o.Users = []*server.User{{Username: "shop", Password: "x", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: p.Publish}, Subscribe: &server.SubjectPermission{Allow: p.Subscribe},
		}}}
	})
	at := []string{"--server", "nats", "--nats", strings.Replace(srv.ClientURL(), "nats://", "nats://shop:x@", 1), "--nats-inbox-prefix", inbox}
	check := func(args ...string) (int, string, string) {
		return command(t, append(append([]string{"check-permissions"}, args...), at...)...)
	}
	if code, out, errs := check("client"); code != 0 || !strings.Contains(out, "exactly the permissions") {
		t.Errorf("code %d, %s%s", code, out, errs)
	}
	code, out, errs := check("operator")
	if code != 1 || errs != "" {
		t.Errorf("code %d, %s", code, errs)
	}
	wantText(t, out, "STATUS SERVER RIGHT SUBJECT", "lacking nats publish pawl.default.request.*.admin", "lacking nats publish pawl.default.to.*.purge")
	for line := range strings.Lines(out) {
		if len(line) > 80 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	code, out, _ = check("events", "--json")
	if code != 0 { // permissions in excess are no failure
		t.Errorf("code %d", code)
	}
	wantText(t, out, `{"server":"nats","status":"extra","right":"publish","what":"pawl.default.to.*.cancel"}`)
	if code, _, errs := check("king"); code != 2 || !strings.Contains(errs, "operator") {
		t.Errorf("code %d, %s", code, errs)
	}
	if code, _, errs := command(t, append([]string{"check-permissions", "client"}, at[:4]...)...); code != 1 || !strings.Contains(errs, "--nats-inbox-prefix") {
		t.Errorf("code %d, %s", code, errs)
	}
	wantText(t, must(t, "permissions", "redis", "--namespaces", "shop"), "user pawl-shop-orchestrator on", "user pawl-shop-worker on")
	wantText(t, must(t, "permissions", "nats", "--namespaces", "shop"), `user: "pawl-shop-client", password: $PAWL_SHOP_CLIENT_PASSWORD`, `"pawl.shop.to.*.cancel"`)
}

// A Redis without users grants every role excess permissions, and no role lacks any.
func TestCheckPermissionsReadsRedis(t *testing.T) {
	at := []string{"--server", "redis", "--redis", "redis://" + redistest.Start(t).Addr}
	code, out, errs := command(t, append([]string{"check-permissions", "worker"}, at...)...)
	if code != 0 || errs != "" {
		t.Errorf("code %d, %s", code, errs)
	}
	wantText(t, out, "STATUS SERVER RIGHT SUBJECT", "extra redis command flushall")
}

func TestCheckOfObjectsWorksWithThePermissionsOfAnOperator(t *testing.T) {
	srv := natstest.Start(t, func(o *server.Options) {
		p, _ := transport.PermissionsOf("default", transport.RoleOperator, func(r transport.Role) string { return permissions.NATSInbox("default", r) })
		o.Users = []*server.User{{Username: "admin", Password: "x"}, {Username: "operator", Password: "x", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: p.Publish}, Subscribe: &server.SubjectPermission{Allow: p.Subscribe},
		}}}
	})
	as := func(user string) string { return strings.Replace(srv.ClientURL(), "nats://", "nats://"+user+":x@", 1) }
	conn, err := transport.Open(t.Context(), natstest.Dial(t, as("admin")), transport.Options{Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.EnsureObjects(t.Context()); err != nil {
		t.Fatal(err)
	}
	rdb := redistest.Start(t)
	if err := rdb.Client(t).HSet(t.Context(), redisx.NewSpace("default").Meta(), "partitions", 1).Err(); err != nil {
		t.Fatal(err)
	}
	code, out, errs := command(t, "check", "--objects", "--redis", "redis://"+rdb.Addr, "--nats", as("operator"), "--nats-inbox-prefix", permissions.NATSInbox("default", transport.RoleOperator))
	if code != 0 || errs != "" || !strings.Contains(out, "0 findings") {
		t.Errorf("code %d, %s%s", code, out, errs)
	}
}
