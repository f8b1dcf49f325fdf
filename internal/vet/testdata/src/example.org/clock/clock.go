// Package clock is a library: nothing is reported in it, everything is told to those who import it.
package clock

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"
)

type Stamp struct{ at time.Time }

func New() Stamp { return Stamp{now()} } // want New:`reaches clock\.now → time\.Now`

func (s *Stamp) Renew() { s.at = now() } // want Renew:`reaches clock\.now → time\.Now`

func now() time.Time { return time.Now() } // want now:`reaches time\.Now`

func (s Stamp) Zero() bool { return s.at.IsZero() }

// Keys gives the keys as they come.
func Keys[K comparable, V any](m map[K]V) []K { // want Keys:`reaches a loop over a map`
	var keys []K
	for k := range m {
		keys = append(keys, k)
	}
	return keys
}

// Even calls Odd, which calls Even: the search for ways ends all the same.
func Even(n int) bool { return n == 0 || Odd(n-1) } // want Even:`reaches clock\.Odd → os\.Getpid`

func Odd(n int) bool { return n != 0 && Even(n-1) && os.Getpid() > 1 } // want Odd:`reaches os\.Getpid`

var (
	mu    sync.Mutex
	once  sync.Once
	table map[string]int
)

// Lookup guards and fills a cache, says something, and makes a context: all its own business.
func Lookup(s string) int {
	mu.Lock()
	defer mu.Unlock()
	once.Do(func() { table = map[string]int{"one": 1} })
	fmt.Println(context.Background())
	return table[s]
}

// Set is what others see.
func Set(s string) { table[s] = 1 } // want Set:`reaches a write to clock\.table`

// Run runs f beside.
func Run(f func()) { // want Run:`reaches closing a channel, a go statement`
	done := make(chan int)
	go func() { f(); close(done) }()
	<-done
}

// Argued has an argument.
func Argued() time.Time {
	return time.Now() //pawl:allow time: the day that the build was made would do as well
}
