package permissions

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// RedisRole is a role with a user of its own on Redis. Clients and senders of events need none.
type RedisRole string

// The roles.
const (
	RedisOrchestrator RedisRole = "orchestrator"
	RedisWorker       RedisRole = "worker"
	RedisOperator     RedisRole = "operator"
)

// RedisRoles lists them.
func RedisRoles() []RedisRole { return []RedisRole{RedisOrchestrator, RedisWorker, RedisOperator} }

// redisRule is what a user may do in one selector of an ACL. Redis checks the keys that EVALSHA names, and then each command of
// the script, each against one selector: so a script may name a key that it only reads without a right to write it.
type redisRule struct {
	commands []string
	keys     []string // patterns, each with %R~, %W~ or ~
}

// redisKeyless is what every role does without naming a key. A setting is read with INFO: CONFIG GET would show the password of others.
var redisKeyless = []string{"acl|dryrun", "acl|whoami", "client|setname", "cluster|slots", "command", "hello", "info", "ping", "script|load", "time"}

// Commands of the orchestrator's scripts and requests, and those among them that write nothing.
var (
	redisReads = []string{
		"exists", "hexists", "hget", "hgetall", "hkeys", "hlen", "hmget", "hstrlen", "lindex", "llen", "lrange", "memory|usage", "zcard", "zcount", "zlexcount", "zmscore", "zrange",
		"zrangebylex", "zrangebyscore", "zrank", "zrevrange", "zrevrangebyscore", "zscore",
	}
	redisWrites = []string{
		"del", "hdel", "hincrby", "hset", "hsetnx", "lpush", "lrem", "ltrim", "persist", "pexpire", "pexpireat", "rpush", "unlink", "zadd", "zrem",
		"zremrangebyrank", "zremrangebyscore",
	}
	redisScans = []string{"hscan", "pttl", "scan", "scard", "strlen", "type", "zscan"} // of the operator
)

// redisRules are those of a role in a namespace; the first is the user's own, without keys where it has none.
func redisRules(ns string, r RedisRole) []redisRule {
	shared, slots := "pawl:{"+ns+"}:", "pawl:{"+ns+".*}:*"
	switch part := "pawl:{" + ns + ".[0-9]*}:"; r {
	case RedisOrchestrator:
		return []redisRule{{slices.Concat(redisKeyless, []string{"evalsha", "scan"}, redisReads, redisWrites), []string{"~" + shared + "*", "~" + slots}}}
	case RedisOperator:
		return []redisRule{
			{slices.Concat(redisKeyless, redisReads, redisScans), []string{"%R~" + shared + "*", "%R~" + slots}},
			{[]string{"evalsha"}, []string{"~" + slots}}, // a script of an operator writes nothing: see the commands
		}
	default:
		return []redisRule{
			{redisKeyless, nil},
			{[]string{"evalsha"}, []string{"~" + part + "l:*", "~" + part + "in:*", "~" + part + "wakeups", "~" + part + "i:*", "~" + part + "r:*"}},
			{[]string{"del", "hdel", "hget", "hmget", "hset"}, []string{"~" + part + "l:*"}},
			{[]string{"rpush"}, []string{"%W~" + part + "in:*"}},
			{[]string{"zadd"}, []string{"%W~" + part + "wakeups"}},
			{[]string{"hdel", "hset", "hsetnx"}, []string{"%W~" + part + "r:*"}},
			{[]string{"hget"}, []string{"%R~" + part + "i:*", "%R~" + shared + "meta"}},
			{[]string{"lrange"}, []string{"%R~" + part + "h:*"}},
		}
	}
}

// RedisUser is the name of the user for a role of a namespace.
func RedisUser(namespace string, r RedisRole) string { return "pawl-" + namespace + "-" + string(r) }

// RedisPlaceholder stands for the password of a user.
func RedisPlaceholder(user string) string { return "CHANGE-ME-" + user }

// RedisFile is an ACL file with a user for each role of the namespaces. password gives that of a user; a
// file has no variables, so the generated one has a placeholder.
func RedisFile(password func(user string) string, namespaces ...string) string {
	var b strings.Builder
	b.WriteString("user default off\n")
	for _, ns := range namespaces {
		for _, r := range RedisRoles() {
			user := RedisUser(ns, r)
			fmt.Fprintf(&b, "user %s on >%s resetchannels -@all", user, password(user))
			for i, rule := range redisRules(ns, r) {
				list := slices.Clone(rule.keys)
				for _, c := range rule.commands {
					list = append(list, "+"+c)
				}
				if i == 0 {
					b.WriteString(" " + strings.Join(list, " "))
				} else {
					b.WriteString(" (-@all " + strings.Join(list, " ") + ")")
				}
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// CheckRedis compares what the user of a client may do with what its role needs. It runs nothing but ACL WHOAMI and ACL DRYRUN,
// which the roles of the file may do: an error means that the user may not.
func CheckRedis(ctx context.Context, rdb redis.UniversalClient, namespace string, r RedisRole) ([]Finding, error) {
	user, err := rdb.Do(ctx, "ACL", "WHOAMI").Text()
	if err != nil {
		return nil, fmt.Errorf("permissions: ask Redis for the user: %w", err)
	}
	var found []Finding
	for status, probes := range map[Status][][]string{Lacking: redisNeeded(namespace, r), Extra: redisRefused(namespace, r)} {
		for _, p := range probes {
			args := []any{"ACL", "DRYRUN", user}
			for _, a := range p {
				args = append(args, a)
			}
			answer, err := rdb.Do(ctx, args...).Text()
			if err != nil {
				return nil, fmt.Errorf("permissions: ask Redis for the rights of %s: %w", user, err)
			}
			if (answer == "OK") == (status == Extra) {
				found = append(found, Finding{Server: "redis", Status: status, Right: "command", What: strings.Join(p, " ")})
			}
		}
	}
	slices.SortFunc(found, Finding.Compare)
	return found, nil
}

// redisArguments are those behind the key, of the commands that need any.
var redisArguments = map[string][]string{
	"hdel": {"f"}, "hexists": {"f"}, "hget": {"f"}, "hincrby": {"f", "1"}, "hmget": {"f"}, "hscan": {"0"}, "hset": {"f", "v"}, "hsetnx": {"f", "v"}, "hstrlen": {"f"},
	"lindex": {"0"}, "lpush": {"v"}, "lrange": {"0", "1"}, "lrem": {"1", "v"}, "ltrim": {"0", "1"}, "pexpire": {"1"}, "pexpireat": {"1"}, "rpush": {"v"},
	"zadd": {"1", "m"}, "zcount": {"0", "1"}, "zlexcount": {"-", "+"}, "zmscore": {"m"}, "zrangebylex": {"-", "+"}, "zrange": {"0", "1"}, "zrangebyscore": {"0", "1"}, "zrank": {"m"}, "zrem": {"m"}, "zremrangebyrank": {"0", "1"},
	"zremrangebyscore": {"0", "1"}, "zrevrange": {"0", "1"}, "zrevrangebyscore": {"1", "0"}, "zscan": {"0"}, "zscore": {"m"},
}

// redisWithoutKey are the commands that are checked as they stand.
var redisWithoutKey = map[string][]string{
	"acl|dryrun": nil, "acl|whoami": nil, "client|setname": {"n"}, "cluster|slots": nil, "command": nil, "hello": nil, "info": nil, "ping": nil,
	"scan": {"0"}, "script|load": {"return 1"}, "time": nil,
}

// redisNeeded are commands that a role runs, one for each and each kind of key.
func redisNeeded(ns string, r RedisRole) (all [][]string) {
	for _, rule := range redisRules(ns, r) {
		for _, c := range rule.commands {
			words := strings.Split(c, "|")
			if args, ok := redisWithoutKey[c]; ok {
				if c != "acl|dryrun" { // this one is tried by asking
					all = append(all, append(words, args...))
				}
				continue
			}
			for _, pattern := range rule.keys {
				all = append(all, onRedisKey(c, redisSample(pattern)))
			}
		}
	}
	return all
}

func onRedisKey(command, key string) []string {
	if command == "evalsha" {
		return []string{"evalsha", strings.Repeat("0", 40), "1", key}
	}
	return slices.Concat(strings.Split(command, "|"), []string{key}, redisArguments[command])
}

// redisSample is a key that a pattern matches.
func redisSample(pattern string) string {
	_, key, _ := strings.Cut(pattern, "~")
	return strings.NewReplacer("[0-9]*", "0", "*", "0").Replace(key)
}

// redisRefused are commands that a role must not be able to run.
func redisRefused(ns string, r RedisRole) [][]string {
	part, other := "pawl:{"+ns+".0}:", "pawl:{"+ns+"-other.0}:"
	all := [][]string{{"flushall"}, {"config", "get", "requirepass"}, {"keys", "*"}, {"acl", "list"}, {"eval", "return 1", "0"}, {"hget", other + "p", "secret"}, {"hset", other + "l:i:1:2", "t", "x"}}
	if r == RedisOrchestrator {
		return all
	}
	all = append(all, [][]string{
		{"hset", part + "i:i", "status", "completed"}, {"rpush", part + "h:i:1", "e"}, {"lpush", part + "in:i", "e"}, {"hset", part + "p", "owner", "x"},
		{"hset", "pawl:{" + ns + "}:policies", "f", "v"}, {"zrem", part + "wakeups", "i"},
	}...)
	if r == RedisWorker {
		all = append(all, [][]string{{"lrange", part + "in:i", "0", "1"}, {"hget", part + "p", "secret"}, {"del", part + "in:i"}, {"zadd", "pawl:{" + ns + ".l.a}:h", "1", "m"}}...)
	}
	return all
}
