package core

// What an owner reports: log lines and counts of limits are effects, all other counts are added up.

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
type logger struct{ owner *Owner }

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

func (l logger) add(line *LogLine) { l.owner.emit(Effect{Kind: WriteLog, Body: line}) }

// reportFailure has an operation logged that failed and is repeated or repaired.
func reportFailure(l logger, text string, err error, attrs ...any) {
	l.add(&LogLine{Level: LevelWarn, Text: text, Attrs: attrs, Failure: err})
}

// Counter names what an owner counts.
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
	CountTold
	CountAsked
	CountTaken
	CountPurged
	CountChildRefused
	CountLooks
	CountExpired
	CountRestored
	CountPoisoned
	CountStalls
	CountDiverged
	CountStoreErrors
	CountPaced
	CountHeld // a gauge
	CountGateAsks
	CountGrantsAgain
	CountOrphans
	Counters // how many there are
)

// Counts are what an owner has counted since the shell has taken them.
type Counts [Counters]float64

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
func (o *Owner) countLimit(action string, c LimitCount) {
	if c.N != 0 {
		o.emit(Effect{Kind: CountLimit, ID: action, Body: c})
	}
}
