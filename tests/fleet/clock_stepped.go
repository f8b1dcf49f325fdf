//go:build steppedclock

package main

import (
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// followSteps adds to the wall clock of this process the nanoseconds in the file $FLEET_CLOCK, which may change at any time.
// Go programs read the time without the C library, so this requires a modified package time; see tests/chaos/clock_test.go.
func followSteps() error {
	f, err := os.Open(os.Getenv("FLEET_CLOCK"))
	if err != nil {
		return fmt.Errorf("clock: %w", err)
	}
	defer func() { _ = f.Close() }()
	offset, err := syscall.Mmap(int(f.Fd()), 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("clock: map %s: %w", f.Name(), err)
	}
	time.AheadBy((*int64)(unsafe.Pointer(&offset[0])))
	return nil
}
