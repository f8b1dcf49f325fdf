package pawlcodec_test

import (
	"testing"

	"github.com/pawlrun/pawl/internal/sealing"
	"github.com/pawlrun/pawl/pawlcodec"
)

// The public constants are written out, so that go doc shows their values.
func TestSizesAreThoseOfSealing(t *testing.T) {
	type sizes [3]int
	if got, want := (sizes{pawlcodec.StoreAbove, pawlcodec.MaxInline, pawlcodec.MaxStored}), (sizes{sealing.StoreAbove, sealing.MaxInline, sealing.MaxStored}); got != want {
		t.Errorf("sizes %v, want %v", got, want)
	}
}
