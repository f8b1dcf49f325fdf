package redisx

import (
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// arrayLua executes the calls of an array one after the other, independently of each other: an error of a call becomes its reply. Its
// arguments are the number of calls; for each call the numbers of its keys and arguments, as one text; and then the arguments of all
// calls. An error is returned as the array '!', text: if an element of an array is an error for which go-redis (9.23) has a type, such as
// OOM, go-redis does not read the array to its end, and takes the rest for the replies to later commands.
const arrayLua = `local function call(key, last_key, arg, last_arg)
%s
end
local replies, n = {}, num(ARGV[1])
local key, arg = 0, 1 + n
for i = 1, n do
  local keys, args = counts(ARGV[1 + i])
  local last_key, last_arg = key + keys, arg + args
  local ok, reply = pcall(call, key, last_key, arg, last_arg)
  if not ok and type(reply) ~= 'table' then -- an error before Redis 7, or of Lua itself; a line break would violate the protocol of Redis 6.2
    reply = string.gsub(tostring(reply), '%%s+', ' ')
    reply = { err = string.find(reply, '^%%u+ ') and reply or 'ERR ' .. reply }
  end
  if type(reply) == 'table' and reply.err then reply = { '!', reply.err } end
  replies[i] = reply or false
  key, arg = last_key, last_arg
end
return replies
`

// Bounds of an array. Other clients of the node wait while it runs.
const (
	maxArray     = 32       // calls of an array
	maxArrayArgs = 64       // keys and arguments of a call; with more, the call itself dominates its cost
	maxArraySize = 64 << 10 // bytes of a call
)

// command is one command of a pipeline: a single call, or the calls of an array.
type command struct {
	calls []flight
	cmd   *redis.Cmd
}

// commands groups a batch into commands. Calls that may be joined become arrays, by script and, in a cluster, by slot. Calls within a
// command keep their order.
func (r *Runner) commands(batch []flight) []command {
	out := make([]command, 0, len(batch))
	var open map[arrayID]int // index in out of the latest array
	for i, f := range batch {
		if !f.joins() || len(batch) == 1 {
			out = append(out, command{calls: batch[i : i+1 : i+1]})
			continue
		}
		id := arrayID{script: f.call.Script}
		if r.slots != nil || r.divided.Load() {
			id.tag = hashTag(f.call.Keys[0])
		}
		at, ok := open[id]
		if ok && len(out[at].calls) < maxArray {
			out[at].calls = append(out[at].calls, f)
			continue
		}
		if open == nil {
			open = make(map[arrayID]int)
		}
		open[id] = len(out)
		out = append(out, command{calls: batch[i : i+1 : i+1]})
	}
	return out
}

type arrayID struct {
	script *Script
	tag    string // hash tag of the keys; "": any
}

// joins reports whether the call may be part of an array.
func (f *flight) joins() bool {
	c := &f.call
	return c.Join && c.Script.array.sha != "" && len(c.Keys)+len(c.Args) <= maxArrayArgs && f.size <= maxArraySize
}

// hashTag returns the part of one of Pawl's keys that determines its slot.
func hashTag(key string) string { return key[:strings.IndexByte(key, '}')+1] }

// form returns the script that the command runs.
func (c *command) form() form {
	s := c.calls[0].call.Script
	if len(c.calls) > 1 {
		return s.array
	}
	return s.one
}

// wire returns the command as it is sent.
func (c *command) wire() []any {
	first := &c.calls[0].call
	if first.Script == nil {
		return first.Args
	}
	s, keys, args := first.Script, 0, 0
	for i := range c.calls {
		keys += len(c.calls[i].call.Keys)
		args += len(c.calls[i].call.Args)
	}
	out := make([]any, 0, 4+len(c.calls)+keys+args)
	out = append(out, "EVALSHA", c.form().sha, keys)
	for i := range c.calls {
		for _, k := range c.calls[i].call.Keys {
			out = append(out, k)
		}
	}
	if len(c.calls) > 1 {
		out = append(out, len(c.calls))
		for i := range c.calls {
			out = append(out, countsOf(len(c.calls[i].call.Keys), s.sent(len(c.calls[i].call.Args))))
		}
	}
	for i := range c.calls {
		out = s.send(out, c.calls[i].call.Args)
	}
	return out
}

// replies calls f with the reply or the error of each call.
func (c *command) replies(f func(flight, any, error)) {
	all, err := c.cmd.Result()
	if len(c.calls) == 1 {
		f(c.calls[0], all, err)
		return
	}
	list, _ := all.([]any)
	for i, call := range c.calls {
		switch {
		case err != nil:
			f(call, nil, err)
		case len(list) != len(c.calls):
			f(call, nil, fmt.Errorf("%w: %d replies to %d calls", ErrReply, len(list), len(c.calls)))
		default:
			if l, ok := list[i].([]any); ok && len(l) == 2 && l[0] == "!" {
				f(call, nil, replyError(fmt.Sprint(l[1])))
			} else {
				f(call, list[i], nil)
			}
		}
	}
}

// formsOf returns the distinct scripts that the commands run.
func formsOf(commands []command) []form {
	var out []form
	for i := range commands {
		if s := commands[i].form(); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
