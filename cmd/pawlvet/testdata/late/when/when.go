// Package when tells the time.
package when

import "time"

// Late reports whether the day is over.
func Late() bool { return hour() > 18 }

func hour() int { return time.Now().Hour() }
