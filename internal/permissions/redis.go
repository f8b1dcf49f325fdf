package permissions

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// RedisRole is a role that requires a user on Redis. Clients and senders of events require none.
type RedisRole string

// The roles.
const (
	RedisOrchestrator RedisRole = "orchestrator"
	RedisWorker       RedisRole = "worker"
	RedisOperator     RedisRole = "operator"
)

// RedisRoles returns all roles.
func RedisRoles() []RedisRole { return []RedisRole{RedisOrchestrator, RedisWorker, RedisOperator} }

// redisRule is one selector of an ACL. Redis checks the keys of EVALSHA, and then each command of the script, each of them against one
// selector. So a script can declare a key that it only reads without the permission to write it.
type redisRule struct {
	commands []string
	keys     []string // patterns, each with %R~, %W~ or ~
}

// redisKeyless are the commands without a key, which every role uses. Settings are read with INFO, because CONFIG GET would reveal passwords.
var redisKeyless = []string{"acl|dryrun", "acl|whoami", "client|setname", "cluster|slots", "command", "hello", "info", "ping", "script|load", "time"}

// Commands of the scripts and requests of orchestrators, by whether they write, and further commands of operators.
var (
	redisReads = []string{
		"exists", "hexists", "hget", "hgetall", "hkeys", "hlen", "hmget", "hstrlen", "lindex", "llen", "lrange", "memory|usage", "zcard", "zcount", "zlexcount", "zmscore", "zrange",
		"zrangebylex", "zrangebyscore", "zrank", "zrevrange", "zrevrangebyscore", "zscore",
	}
	redisWrites = []string{
		"del", "hdel", "hincrby", "hset", "hsetnx", "lpush", "lrem", "ltrim", "persist", "pexpire", "pexpireat", "rpush", "unlink", "zadd", "zrem",
		"zremrangebyrank", "zremrangebyscore",
	}
	redisScans = []string{"hscan", "pttl", "scan", "scard", "strlen", "type", "zscan"} // only for operators
)

// redisRules returns the selectors of a role in a namespace. The first is the root selector, which may have no keys.
func redisRules(ns string, r RedisRole) []redisRule {
	shared, slots := "pawl:{"+ns+"}:", "pawl:{"+ns+".*}:*"
	switch part := "pawl:{" + ns + ".[0-9]*}:"; r {
	case RedisOrchestrator:
		return []redisRule{{slices.Concat(redisKeyless, []string{"evalsha", "scan"}, redisReads, redisWrites), []string{"~" + shared + "*", "~" + slots}}}
	case RedisOperator:
		return []redisRule{
			{slices.Concat(redisKeyless, redisReads, redisScans), []string{"%R~" + shared + "*", "%R~" + slots}},
			{[]string{"evalsha"}, []string{"~" + slots}}, // the commands above write nothing, so scripts cannot either
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

// RedisUser returns the name of the user for a role of a namespace.
func RedisUser(namespace string, r RedisRole) string { return "pawl-" + namespace + "-" + string(r) }

// RedisPlaceholder returns a placeholder for the password of a user.
func RedisPlaceholder(user string) string { return "CHANGE-ME-" + user }

// RedisFile returns an ACL file with a user for each role of the namespaces. password returns the password of a user. ACL files have no
// variables, so the file in the repository contains placeholders.
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

// CheckRedis compares the permissions of the user of a client with those of its role. It runs only ACL WHOAMI and ACL DRYRUN,
// which every role of the file may run. An error means that the user may not.
func CheckRedis(ctx context.Context, rdb redis.UniversalClient, namespace string, r RedisRole) ([]Finding, error) {
	user, err := rdb.Do(ctx, "ACL", "WHOAMI").Text()
	if err != nil {
		return nil, fmt.Errorf("permissions: request the user from Redis: %w", err)
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
				return nil, fmt.Errorf("permissions: request the permissions of %s from Redis: %w", user, err)
			}
			if (answer == "OK") == (status == Extra) {
				found = append(found, Finding{Server: "redis", Status: status, Right: "command", What: strings.Join(p, " ")})
			}
		}
	}
	slices.SortFunc(found, Finding.Compare)
	return found, nil
}

// redisArguments are the arguments after the key, for the commands that require any.
var redisArguments = map[string][]string{
	"hdel": {"f"}, "hexists": {"f"}, "hget": {"f"}, "hincrby": {"f", "1"}, "hmget": {"f"}, "hscan": {"0"}, "hset": {"f", "v"}, "hsetnx": {"f", "v"}, "hstrlen": {"f"},
	"lindex": {"0"}, "lpush": {"v"}, "lrange": {"0", "1"}, "lrem": {"1", "v"}, "ltrim": {"0", "1"}, "pexpire": {"1"}, "pexpireat": {"1"}, "rpush": {"v"},
	"zadd": {"1", "m"}, "zcount": {"0", "1"}, "zlexcount": {"-", "+"}, "zmscore": {"m"}, "zrangebylex": {"-", "+"}, "zrange": {"0", "1"}, "zrangebyscore": {"0", "1"}, "zrank": {"m"}, "zrem": {"m"}, "zremrangebyrank": {"0", "1"},
	"zremrangebyscore": {"0", "1"}, "zrevrange": {"0", "1"}, "zrevrangebyscore": {"1", "0"}, "zscan": {"0"}, "zscore": {"m"},
}

// redisWithoutKey are the arguments of the commands that have no key.
var redisWithoutKey = map[string][]string{
	"acl|dryrun": nil, "acl|whoami": nil, "client|setname": {"n"}, "cluster|slots": nil, "command": nil, "hello": nil, "info": nil, "ping": nil,
	"scan": {"0"}, "script|load": {"return 1"}, "time": nil,
}

// redisNeeded returns commands that a role runs: one for each command and kind of key.
func redisNeeded(ns string, r RedisRole) (all [][]string) {
	for _, rule := range redisRules(ns, r) {
		for _, c := range rule.commands {
			words := strings.Split(c, "|")
			if args, ok := redisWithoutKey[c]; ok {
				if c != "acl|dryrun" { // CheckRedis runs it anyway
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

// redisSample returns a key that matches a pattern.
func redisSample(pattern string) string {
	_, key, _ := strings.Cut(pattern, "~")
	return strings.NewReplacer("[0-9]*", "0", "*", "0").Replace(key)
}

// redisRefused returns commands that a role must not be able to run.
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
