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

// outcome contains the packages that analysistest has analyzed, and its complaints.
type outcome struct {
	packages   []string
	complaints []string
}

func (o *outcome) Errorf(format string, args ...any) {
	o.complaints = append(o.complaints, fmt.Sprintf(format, args...))
}

// analyzed runs over all of testdata once, because loading the standard library takes most of the time.
var analyzed = sync.OnceValue(func() *outcome {
	o := &outcome{}
	for _, r := range analysistest.Run(o, analysistest.TestData(), vet.Analyzer, "example.org/...") {
		o.packages = append(o.packages, strings.TrimPrefix(r.Action.Package.PkgPath, "example.org/"))
	}
	return o
})

// expect fails the test for complaints about the packages.
func expect(t *testing.T, packages ...string) {
	t.Helper()
	for _, p := range packages {
		if !slices.Contains(analyzed().packages, p) {
			t.Errorf("%s was not analyzed", p)
		}
	}
	for _, c := range analyzed().complaints {
		mine := !strings.Contains(c, "example.org/") // a complaint without a package concerns all of them
		for _, p := range packages {
			mine = mine || strings.Contains(c, "example.org/"+p+"/")
		}
		if mine {
			t.Error(c)
		}
	}
}

func TestHazardsAreReportedAtTheirPosition(t *testing.T) { expect(t, "direct") }

func TestHazardsInOtherPackagesAreReportedAtTheCallWithTheirPath(t *testing.T) {
	expect(t, "clock", "shop", "across")
}

func TestMapLoopsAreReportedUnlessTheyCollectOrSortKeys(t *testing.T) { expect(t, "maploop") }

func TestAllowSuppressesOneFindingAndIsReportedIfUnused(t *testing.T) {
	expect(t, "allowed")
}

func TestActivitiesAndDeterministicCodeAreNotReported(t *testing.T) { expect(t, "free") }

func TestContextThatEscapesItsRunIsReported(t *testing.T) { expect(t, "escape") }

func TestGenericFunctionsAreAnalyzed(t *testing.T) { expect(t, "generic") }

func TestGuideExamplesHaveTheirFindings(t *testing.T) { expect(t, "guide") }
