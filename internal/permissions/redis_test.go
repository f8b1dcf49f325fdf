package permissions_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pawlrun/pawl"
	"github.com/pawlrun/pawl/internal/natstest"
	"github.com/pawlrun/pawl/internal/permissions"
	"github.com/pawlrun/pawl/internal/redistest"
	"github.com/pawlrun/pawl/internal/redisx"
	"github.com/pawlrun/pawl/internal/store"
	"github.com/pawlrun/pawl/internal/transport"
	"github.com/pawlrun/pawl/pkg/client"
	"github.com/pawlrun/pawl/pkg/orchestrator"
	"github.com/pawlrun/pawl/pkg/worker"
)

const redisFile = "../../deployments/redis-users.acl"

// PAWL_UPDATE=1 writes the file.
func TestRedisFileInDeploymentsIsGenerated(t *testing.T) {
	want := permissions.RedisFile(permissions.RedisPlaceholder, "default")
	if os.Getenv("PAWL_UPDATE") != "" {
		if err := os.WriteFile(redisFile, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(redisFile)
	if err != nil || string(got) != want {
		t.Fatalf("%s is out of date (%v); write it with PAWL_UPDATE=1", redisFile, err)
	}
}

// The file grants every command that a script or a request uses, and no other command with a key.
func TestRedisCommandsAreThoseOfTheCode(t *testing.T) {
	inLua := regexp.MustCompile(`redis\.p?call\(([^)]*)`)
	word := regexp.MustCompile(`'([A-Z]+)'`)
	inGo := regexp.MustCompile(`redisx\.Command\("([A-Z]+)"`)
	used := map[string]bool{}
	for _, root := range []string{"../../pkg", "../../internal/store", "../../internal/redisx", "../../internal/limiter", "../../internal/partition"} {
		err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
			if err != nil || strings.HasSuffix(path, "_test.go") || !strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".lua") {
				return err
			}
			b, err := os.ReadFile(path)
			for _, m := range inLua.FindAllStringSubmatch(string(b), -1) {
				for _, w := range word.FindAllStringSubmatch(m[1], -1) {
					used[strings.ToLower(w[1])] = true
				}
			}
			for _, m := range inGo.FindAllStringSubmatch(string(b), -1) {
				used[strings.ToLower(m[1])] = true
			}
			used["scan"] = used["scan"] || strings.Contains(string(b), ".Scan(ctx, 0,") // of a node, not through the runner
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, option := range []string{"limit", "lt", "nx", "xx", "withscores", "rev", "samples", "usage", "count", "byscore"} {
		delete(used, option)
	}
	var orchestrators string
	for line := range strings.Lines(permissions.RedisFile(permissions.RedisPlaceholder, "default")) {
		if strings.Contains(line, "-orchestrator on") {
			orchestrators = line
		}
	}
	granted := map[string]bool{}
	for _, m := range regexp.MustCompile(`\+([a-z]+)`).FindAllStringSubmatch(orchestrators, -1) {
		granted[m[1]] = true
	}
	for c := range used {
		if !granted[c] {
			t.Errorf("%s is used and not granted", c)
		}
	}
	for c := range granted {
		if !used[c] && !slices.Contains([]string{"acl", "client", "cluster", "command", "evalsha", "hello", "info", "ping", "script"}, c) {
			t.Errorf("%s is granted and not used", c)
		}
	}
}

// acl is a Redis with the users of two namespaces.
type acl struct {
	*testing.T

	server *redistest.Server
	admin  redis.UniversalClient
}

func startACL(t *testing.T) *acl {
	file := filepath.Join(t.TempDir(), "users.acl")
	users := strings.Replace(permissions.RedisFile(func(u string) string { return u }, "default", "neighbor"), "user default off\n", "user default on nopass ~* &* +@all\n", 1)
	if err := os.WriteFile(file, []byte(users), 0o600); err != nil {
		t.Fatal(err)
	}
	s := redistest.Start(t, "--aclfile", file)
	return &acl{T: t, server: s, admin: s.Client(t)}
}

func (a *acl) as(ns string, r permissions.RedisRole) redis.UniversalClient {
	user := permissions.RedisUser(ns, r)
	rdb := redis.NewClient(&redis.Options{Addr: a.server.Addr, Username: user, Password: user})
	a.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func (a *acl) must(err error) {
	a.Helper()
	if err != nil {
		a.Fatal(err)
	}
}

// denied lists the commands that Redis has denied, except those that Pawl does not need.
func (a *acl) denied() (all []string) {
	log, err := a.admin.ACLLog(context.Background(), 100).Result()
	a.must(err)
	for _, e := range log {
		switch e.Object {
		case "config|get", "client|setinfo", "client|maint_notifications", "client": // the setting is read with INFO; go-redis sends the others
		default:
			all = append(all, e.Username+": "+e.Reason+" "+e.Object+" in "+e.Context)
		}
	}
	return all
}

var (
	family  = pawl.NewOrchestration[int, string]("family")
	member  = pawl.NewOrchestration[string, string]("member")
	limited = pawl.NewActivity[string, string]("limited", pawl.Concurrency(1))
	hold    = pawl.NewActivity[string, string]("hold")
	ready   = pawl.NewEvent[string]("ready")
)

// raise uses the features that write to Redis: activities, a limit, a child, an event, cancellation, a timer, continue-as-new.
func raise(ctx *pawl.Context, n int) (string, error) {
	if n == 0 {
		held, first, second := hold.Start(ctx, "h"), limited.Start(ctx, "a"), limited.Start(ctx, "b")
		child := member.Start(ctx, "c")
		if _, err := pawl.All(ctx, first, second); err != nil {
			return "", err
		}
		held.Cancel("enough")
		if err := pawl.Sleep(ctx, 10*time.Millisecond); err != nil {
			return "", err
		}
		if _, err := child.Get(ctx); err != nil {
			return "", err
		}
		return family.ContinueAsNew(ctx, 1)
	}
	return ready.Receive(ctx)
}

func TestFleetWorksWithTheUsersOfTheRedisFile(t *testing.T) {
	a := startACL(t)
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Minute)
	defer stop()
	url := natstest.Start(t).ClientURL()
	o, err := orchestrator.New(orchestrator.Config{NATS: natstest.Dial(t, url), Redis: a.as("default", permissions.RedisOrchestrator), Partitions: 4, ReconcileInterval: 500 * time.Millisecond},
		family.Do(raise), member.Do(func(_ *pawl.Context, s string) (string, error) { return s, nil }))
	a.must(err)
	a.must(o.Start(ctx))
	echo := func(_ context.Context, s string) (string, error) { return s, nil }
	w, err := worker.New(worker.Config{NATS: natstest.Dial(t, url), Redis: a.as("default", permissions.RedisWorker), LeaseTTL: 300 * time.Millisecond},
		limited.Do(echo), hold.Do(func(ctx context.Context, s string) (string, error) { <-ctx.Done(); return s, context.Cause(ctx) }))
	a.must(err)
	a.must(w.Start(ctx))
	c, err := client.New(ctx, natstest.Dial(t, url), client.Options{})
	a.must(err)
	run, err := client.Start(ctx, c, family, "f", 0)
	a.must(err)
	a.must(client.Send(ctx, c, ready, "f", "go"))
	result, err := run.Result(ctx)
	if err != nil || result != "go" {
		t.Fatalf("%q, %v", result, err)
	}
	for _, err := range c.List(ctx, client.ListOptions{}) {
		a.must(err)
	}
	runner := redisx.NewRunner(a.as("default", permissions.RedisOperator))
	operator := store.New(runner, redisx.NewSpace("default"))
	checked, err := operator.Check(ctx, nil, func(int, int) {})
	if err != nil || len(checked.Findings) > 0 || checked.Instances != 2 {
		t.Errorf("check: %+v, %v", checked, err)
	}
	if names, err := operator.Mentions(ctx, transport.PartitionOf("f", 4), "f", []string{"to.1"}); err != nil || len(names) > 0 {
		t.Errorf("mentions: %v, %v", names, err)
	}
	runner.Close()
	a.must(c.Purge(ctx, "f"))
	c.Close()
	a.must(w.Stop(ctx))
	a.must(o.Stop(ctx))
	if d := a.denied(); len(d) > 0 {
		t.Errorf("refused:\n%s", strings.Join(d, "\n"))
	}
}

func TestUsersOfTheRedisFileHaveWhatTheirRoleNeedsAndNothingElse(t *testing.T) {
	a := startACL(t)
	ctx := context.Background()
	for _, r := range permissions.RedisRoles() {
		for _, ns := range []string{"default", "neighbor"} {
			found, err := permissions.CheckRedis(ctx, a.as(ns, r), ns, r)
			if err != nil || len(found) > 0 {
				t.Errorf("%s of %s: %v, %v", r, ns, found, err)
			}
		}
		// The user of another namespace on the same server has none of the permissions.
		found, err := permissions.CheckRedis(ctx, a.as("neighbor", r), "default", r)
		if err != nil || len(found) < 2 {
			t.Errorf("a neighbor's %s: %v, %v", r, found, err)
		}
	}
	found, err := permissions.CheckRedis(ctx, a.admin, "default", permissions.RedisWorker)
	if err != nil || !slices.ContainsFunc(found, func(f permissions.Finding) bool { return f.Status == permissions.Extra && f.What == "flushall" }) {
		t.Errorf("an administrator as a worker: %v, %v", found, err)
	}
	w := a.as("default", permissions.RedisWorker)
	for _, command := range [][]any{
		{"HSET", "pawl:{default.0}:i:x", "status", "completed"}, {"LRANGE", "pawl:{default.0}:in:x", 0, -1}, {"HGET", "pawl:{default.0}:p", "secret"},
		{"CONFIG", "GET", "requirepass"}, {"HGET", "pawl:{neighbor.0}:l:x:1:2", "e"}, {"RPUSH", "pawl:{neighbor.0}:in:x", "e"},
	} {
		if err := w.Do(ctx, command...).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
			t.Errorf("%v: %v, want NOPERM", command, err)
		}
	}
	smuggled := w.ScriptLoad(ctx, "return redis.call('HSET', KEYS[1], 'status', 'completed')")
	a.must(smuggled.Err())
	if err := w.EvalSha(ctx, smuggled.Val(), []string{"pawl:{default.0}:i:x"}).Err(); err == nil {
		t.Error("a script of a worker has written a record")
	}
}
