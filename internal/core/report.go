package core

import (
	"errors"
)

// What an owner reports: log lines and counts of limits are effects, all other counts are added up.

// ErrRefused is the error of a write that the store has refused as a whole, and would refuse again.
var ErrRefused = errors.New("refused by the store")

// logLevel is the level of a log line.
type logLevel uint8

// Levels.
const (
	LevelDebug logLevel = iota
	LevelInfo
	LevelWarn
	LevelError
)

var logLevels = [...]string{LevelDebug: "debug", LevelInfo: "info", LevelWarn: "warn", LevelError: "error"}

// LogLine is a line for the log of the process.
type LogLine struct {
	Level   logLevel
	Text    string
	Attrs   []any // keys and values
	Failure error // of an operation that is repeated: one that an outage explains is not worth its level
}

// String returns the level and the text, without the attributes.
func (l *LogLine) String() string { return logLevels[l.Level] + ": " + l.Text }

// logger collects log lines.
type logger struct{ a *Owner }

// Error collects a line.
func (l logger) Error(text string, attrs ...any) {
	l.add(&LogLine{Level: LevelError, Text: text, Attrs: attrs})
}

// Warn collects a line.
func (l logger) Warn(text string, attrs ...any) {
	l.add(&LogLine{Level: LevelWarn, Text: text, Attrs: attrs})
}

// Info collects a line.
func (l logger) Info(text string, attrs ...any) {
	l.add(&LogLine{Level: LevelInfo, Text: text, Attrs: attrs})
}

// Debug collects a line.
func (l logger) Debug(text string, attrs ...any) {
	l.add(&LogLine{Level: LevelDebug, Text: text, Attrs: attrs})
}

func (l logger) add(line *LogLine) { l.a.emit(Effect{Kind: WriteLog, Body: line}) }

// reportFailure has an operation logged that failed and is repeated or repaired.
func reportFailure(l logger, text string, err error, attrs ...any) {
	l.add(&LogLine{Level: LevelWarn, Text: text, Attrs: attrs, Failure: err})
}

// Count is a number that grows, or the change of a gauge.
type Count float64

// Inc adds one.
func (c *Count) Inc() { *c++ }

// Add adds n.
func (c *Count) Add(n float64) { *c += Count(n) }

// Counts are what an owner has counted since the shell has taken them.
type Counts struct {
	Dropped, OverBound, ForgedInputs         Count
	Turns, Commits, Conflicts, Loads, Reads  Count
	Published, PublishErrors, Resent, Hints  Count
	Told, Asked, Taken, Purged, ChildRefused Count
	Looks, Expired, Restored, Poisoned       Count
	Stalls, Diverged, StoreErrors, Paced     Count
	Held, GateAsks, GrantsAgain, Orphans     Count
}

// LimitCount is a count of a limit, by action.
type LimitCount struct {
	What limitCounter
	Why  string // of limitRefused
	N    float64
}

type limitCounter uint8

// What is counted of limits.
const (
	LimitWaited limitCounter = iota + 1
	LimitRefused
	LimitDeadlocked
	LimitWaiting // a gauge
	LimitHolding // likewise
)

// countLimit counts for the action of a limit.
func (a *Owner) countLimit(action string, c LimitCount) {
	if c.N != 0 {
		a.emit(Effect{Kind: CountLimit, ID: action, Body: c})
	}
}
