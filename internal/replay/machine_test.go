package replay_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawlrun/pawl/internal/replay"
	"github.com/pawlrun/pawl/pkg/cancel"
	"github.com/pawlrun/pawl/pkg/history"
)

// statement is a line of a scenario's program, with the lines indented below it.
type statement struct {
	words []string
	block []statement
}

// parse parses the lines that are indented by depth tabs, and returns the lines that follow.
func parse(lines []string, depth int) (block []statement, rest []string) {
	for len(lines) > 0 {
		indent := len(lines[0]) - len(strings.TrimLeft(lines[0], "\t"))
		switch {
		case indent < depth:
			return block, lines
		case indent > depth && len(block) > 0:
			last := &block[len(block)-1]
			last.block, lines = parse(lines, indent)
		default:
			block = append(block, statement{words: strings.Fields(lines[0])})
			lines = lines[1:]
		}
	}
	return block, nil
}

// machine runs a scenario's program.
//
//	v = activity NAME [retry N] [pause DURATION] [limited yes] [keep yes] [limit DURATION] [within DURATION]
//	v = timer DURATION · v = next EVENT · v = go, with a block
//	v = child NAME [as ID] [version V] [within DURATION] [abandon yes]
//	get v…          waits for each; an error ends the block, like "return err"
//	try …           runs a statement; an error becomes the last value
//	select v w…     waits for the first and withdraws the others; the last value is its name
//	cancel v TEXT   withdraws it explicitly
//	scope · detach DURATION    run a block in a scope inside, or outside, this one
//	count · await N            adds one to a counter that all strands share; waits for it
//	effect TEXT                a side effect, whose value differs on replay
//	launch NAME ID · send ID EVENT · status    with the last value: a detached start, an event, the status
//	continue [VERSION]                         requests another execution, with the last value as its input
//	input           the last value is what the execution was started with
//	patched NAME · otherwise                   runs its block if it is, or is not
//	drain EVENT     receives all that have arrived; the last value lists them
//	ready v         the last value is whether it is ready
//	note            schedules an activity "note" with the last value, and does not wait
//	return · fail TEXT · panic TEXT
type machine struct {
	x       *replay.Code
	futures map[string]*replay.Future
	counter int
}

// strand is a strand of a program, with its scope and the last value.
type strand struct {
	*machine
	in   *replay.Scope
	last string
	old  bool // the last "patched" took the old branch
}

func (m *machine) main(code []statement) (string, error) {
	m.futures = make(map[string]*replay.Future)
	s := &strand{machine: m, last: "null"}
	err := s.block(code)
	if errors.Is(err, errReturn) {
		err = nil
	}
	return s.last, err
}

func (s *strand) block(code []statement) error {
	for _, st := range code {
		if err := s.run(st); err != nil {
			return err
		}
	}
	return nil
}

func (s *strand) within(scope *replay.Scope, code []statement) error {
	outer := s.in
	s.in = scope
	err := s.block(code)
	s.in = outer
	return err
}

func (s *strand) run(st statement) error {
	words := st.words
	if len(words) > 2 && words[1] == "=" {
		s.futures[words[0]] = s.start(words[2:], st.block)
		return nil
	}
	rest := strings.Join(words[1:], " ")
	switch words[0] {
	case "get":
		for _, name := range words[1:] {
			v, err := s.value(s.futures[name])
			if err != nil {
				return err
			}
			s.last = v
		}
	case "try":
		if err := s.run(statement{words: words[1:], block: st.block}); err != nil {
			s.last = strconv.Quote(err.Error())
		}
	case "select":
		return s.choose(words[1:])
	case "cancel":
		s.futures[words[1]].Withdraw(cancel.Requested, strings.Join(words[2:], " "))
	case "scope":
		scope := s.x.Open(s.in)
		defer s.x.Close(scope)
		return s.within(scope, st.block)
	case "detach":
		return s.within(s.x.Detach(s.in, must(time.ParseDuration(rest))), st.block)
	case "count":
		s.counter++
	case "await":
		n := must(strconv.Atoi(rest))
		return s.x.Await(func() bool { return s.counter >= n }, s.in)
	case "effect":
		p, err := s.x.SideEffect(func() (history.Payload, *history.Failure) { return text(rest), nil }, s.in)
		s.last = string(p.Data)
		return err
	case "patched":
		if s.old = !s.x.Patched(rest); !s.old {
			return s.block(st.block)
		}
	case "otherwise":
		if s.old {
			return s.block(st.block)
		}
	case "drain", "ready":
		return s.poll(words)
	case "launch", "send", "status", "continue", "input":
		return s.message(words)
	case "note":
		s.x.Call(replay.Call{Activity: "note", Payload: text(s.last), Scope: s.in})
	case "return":
		return errReturn
	case "fail":
		return errors.New(rest)
	default: // panic, or an unknown operation
		panic(strings.Join(words, " "))
	}
	return nil
}

// poll runs the operations that are polls.
func (s *strand) poll(words []string) error {
	if words[0] == "ready" {
		s.last = strconv.FormatBool(s.futures[words[1]].Ready())
		return nil
	}
	var all []string
	for {
		p, ok, err := s.x.TryNext(words[1], s.in)
		if err != nil {
			return err
		}
		if !ok {
			s.last = "[" + strings.Join(all, ",") + "]"
			return nil
		}
		all = append(all, string(p.Data))
	}
}

// message runs the operations that affect other instances and executions.
func (s *strand) message(words []string) error {
	switch words[0] {
	case "launch":
		return s.x.Launch(replay.Child{Name: words[1], Instance: words[2]}, text(s.last), s.in)
	case "send":
		return s.x.Send(words[1], words[2], text(s.last), s.in)
	case "status":
		return s.x.SetStatus("", text(s.last))
	case "continue":
		return s.x.ContinueAsNew(text(s.last), strings.Join(words[1:], ""), s.in)
	default:
		s.last = string(s.x.Input().Data)
		return nil
	}
}

func (s *strand) start(words []string, block []statement) *replay.Future {
	switch words[0] {
	case "timer":
		return s.x.Timer(must(time.ParseDuration(words[1])), s.in)
	case "next":
		return s.x.Next(words[1], s.in)
	case "go":
		return s.x.Go(s.in, func(in *replay.Scope) {
			_ = (&strand{machine: s.machine, in: in, last: "null"}).block(block)
		})
	case "activity", "child":
		c := replay.Call{Activity: words[1], Scope: s.in}
		if words[0] == "child" {
			c = replay.Call{Child: &replay.Child{Name: words[1]}, Payload: text(s.last), Scope: s.in}
		}
		for i := 2; i+1 < len(words); i += 2 {
			switch v := words[i+1]; words[i] {
			case "retry":
				c.Retry = replay.Retry{Attempts: must(strconv.Atoi(v)), Initial: time.Second, Factor: 2, Max: time.Minute}
			case "pause":
				c.Retry.Initial = must(time.ParseDuration(v))
			case "limited":
				c.Retry.Limited = v == "yes"
			case "keep":
				c.KeepSlot = v == "yes"
			case "limit":
				c.AttemptTimeout = must(time.ParseDuration(v))
			case "within":
				c.Within = must(time.ParseDuration(v))
			case "as":
				c.Child.Instance = v
			case "version":
				c.Child.Version = v
			case "abandon":
				c.Child.Abandon = v == "yes"
			}
		}
		return s.x.Call(c)
	default:
		panic(fmt.Sprint("unknown operation ", words))
	}
}

func (s *strand) value(f *replay.Future) (string, error) {
	if err := s.x.Wait(f, s.in); err != nil {
		return "", err
	}
	p, err := f.Value()
	return string(p.Data), err
}

func (s *strand) choose(names []string) error {
	fs := make([]*replay.Future, len(names))
	for i, name := range names {
		fs[i] = s.futures[name]
	}
	winner, err := s.x.WaitAny(fs, s.in)
	if err != nil {
		return err
	}
	for i, f := range fs {
		if i != winner {
			f.Withdraw(lostSelect, "")
		}
	}
	s.last = strconv.Quote(names[winner])
	return nil
}
