package core

// Reports of an owner: log lines and counts of limits are effects; all other counts are added up in Owner.Counts.

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

// LogLine is a line of the process's log.
type LogLine struct {
	Level   logLevel
	Text    string
	Attrs   []any // keys and values
	Failure error // error of an operation that is repeated: its level is lowered if an outage explains it
}

// String returns the level and the text, without the attributes.
func (l *LogLine) String() string { return logLevels[l.Level] + ": " + l.Text }

// logger emits log lines as effects.
type logger struct{ owner *Owner }

// Error logs at level error.
func (l logger) Error(text string, attrs ...any) {
	l.add(&LogLine{Level: LevelError, Text: text, Attrs: attrs})
}

// Warn logs at level warn.
func (l logger) Warn(text string, attrs ...any) {
	l.add(&LogLine{Level: LevelWarn, Text: text, Attrs: attrs})
}

// Info logs at level info.
func (l logger) Info(text string, attrs ...any) {
	l.add(&LogLine{Level: LevelInfo, Text: text, Attrs: attrs})
}

// Debug logs at level debug.
func (l logger) Debug(text string, attrs ...any) {
	l.add(&LogLine{Level: LevelDebug, Text: text, Attrs: attrs})
}

func (l logger) add(line *LogLine) { l.owner.emit(Effect{Kind: WriteLog, Body: line}) }

// reportFailure logs a failed operation that is repeated or repaired, at level warn.
func reportFailure(l logger, text string, err error, attrs ...any) {
	l.add(&LogLine{Level: LevelWarn, Text: text, Attrs: attrs, Failure: err})
}

// Counter identifies a count of an owner.
type Counter uint8

// Counters.
const (
	CountDropped Counter = iota
	CountOverBound
	CountForgedInputs
	CountTurns
	CountCommits
	CountConflicts
	CountLoads
	CountReads
	CountPublished
	CountPublishErrors
	CountResent
	CountHints
	CountMessages
	CountStartsRepeated
	CountIDConflicts
	CountPurged
	CountChildRefused
	CountReconciliations
	CountExpired
	CountRestored
	CountPoisoned
	CountStalls
	CountDiverged
	CountStoreErrors
	CountPaced
	CountHeld // a gauge: instances that wait for the horizon
	CountLimitRepeats
	CountGrantsAgain
	CountOrphans
	Counters // number of counters
)

// Counts are the counts of an owner since the shell last read them.
type Counts [Counters]float64

// LimitCount is a count of a limit.
type LimitCount struct {
	What   limitCounter
	Reason string // failure code, for LimitRefused
	N      float64
}

type limitCounter uint8

// Counters of limits.
const (
	LimitWaited limitCounter = iota + 1
	LimitRefused
	LimitDeadlocked
	LimitWaiting // a gauge
	LimitHolding // a gauge
)

// countLimit adds to a count of the limits of an action.
func (o *Owner) countLimit(action string, c LimitCount) {
	if c.N != 0 {
		o.emit(Effect{Kind: CountLimit, ID: action, Body: c})
	}
}
