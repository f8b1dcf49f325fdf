package timers

import "time"

// Millis returns a duration in milliseconds, rounded up, so that a wait is never shorter, and a rate never higher, than declared.
func Millis(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}
