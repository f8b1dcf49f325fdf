package pawltest_test

import (
	"testing"

	"github.com/pawlrun/pawl/pawltest"
)

// One instance with sixty turns, restored from its history after each of them.
func BenchmarkThirtyDaysOfReminders(b *testing.B) {
	for b.Loop() {
		env := reminders(b)
		if got, err := pawltest.Run(env, remind, 30); got != "no answer" || err != nil {
			b.Fatal(got, err)
		}
	}
}

func BenchmarkThirtyDaysOfRemindersWithoutCrashes(b *testing.B) {
	for b.Loop() {
		env := reminders(b)
		env.CrashAfter()
		if got, err := pawltest.Run(env, remind, 30); got != "no answer" || err != nil {
			b.Fatal(got, err)
		}
	}
}
