package vet_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/pawlrun/pawl/internal/vet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// outcome is what analysistest looked at and found wrong.
type outcome struct {
	packages   []string
	complaints []string
}

func (o *outcome) Errorf(format string, args ...any) {
	o.complaints = append(o.complaints, fmt.Sprintf(format, args...))
}

// analysed is one run over all of testdata, for most of its time goes into loading the
// standard library.
var analysed = sync.OnceValue(func() *outcome {
	o := &outcome{}
	for _, r := range analysistest.Run(o, analysistest.TestData(), vet.Analyzer, "example.org/...") {
		o.packages = append(o.packages, strings.TrimPrefix(r.Action.Package.PkgPath, "example.org/"))
	}
	return o
})

// expect demands that what is expected of the packages in their comments has come.
func expect(t *testing.T, packages ...string) {
	t.Helper()
	for _, p := range packages {
		if !slices.Contains(analysed().packages, p) {
			t.Errorf("%s was not analysed", p)
		}
	}
	for _, c := range analysed().complaints {
		mine := !strings.Contains(c, "example.org/") // then it concerns everybody
		for _, p := range packages {
			mine = mine || strings.Contains(c, "example.org/"+p+"/")
		}
		if mine {
			t.Error(c)
		}
	}
}

func TestWhatReplaysDifferentlyIsReportedWhereItStands(t *testing.T) { expect(t, "direct") }

func TestWhatIsReachedThroughOtherPackagesIsReportedAtTheCallWithTheWayThere(t *testing.T) {
	expect(t, "clock", "shop", "across")
}

func TestALoopOverAMapIsFreeIfItComesOutTheSameInEveryOrder(t *testing.T) { expect(t, "maploop") }

func TestAnArgumentSilencesOneFindingAndIsOneItselfIfItArguesNothing(t *testing.T) {
	expect(t, "allowed")
}

func TestActivitiesAndTheInnocentAreLeftAlone(t *testing.T) { expect(t, "free") }

func TestAContextDoesNotLeaveItsRun(t *testing.T) { expect(t, "escape") }

func TestGenericFunctionsAreSeenThrough(t *testing.T) { expect(t, "generic") }

func TestTheGuideTellsTheTruth(t *testing.T) { expect(t, "guide") }
