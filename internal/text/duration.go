package text

import (
	"errors"
	"time"
)

// Duration is a time.Duration that is written as text in JSON and YAML, such as "1h30m". Empty text is zero.
type Duration time.Duration

// Std returns the duration as a time.Duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String returns the text of time.Duration.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText returns the text.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

var errNegative = errors.New("a duration must not be negative")

// UnmarshalText reads the text. A negative duration is an error.
func (d *Duration) UnmarshalText(b []byte) error {
	*d = 0
	if len(b) == 0 {
		return nil
	}
	v, err := time.ParseDuration(string(b))
	if err == nil && v < 0 {
		err = errNegative
	}
	if err != nil {
		return err
	}
	*d = Duration(v)
	return nil
}
