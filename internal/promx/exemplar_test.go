package promx

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlrun/pawl/internal/propagate"
	"github.com/pawlrun/pawl/pkg/history"
)

const trace = "0af7651916cd43dd8448eb211c80319c"

// headers returns the headers of an instance whose owner has a tracer.
func headers(flags string, sampled bool) history.Headers {
	h := history.Headers("").With(history.HeaderTraceparent, "00-"+trace+"-b7ad6b7169203331-"+flags).With("tenant", "acme")
	return propagate.Traced(h, "i", history.Position{Seq: 1}, func([16]byte, [8]byte) bool { return sampled })
}

func TestMeasurementsOfSampledInstancesHaveAnExemplar(t *testing.T) {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h", Buckets: []float64{1, 10}})
	Observe(h, 0.5, Exemplar(headers("00", false)))
	Observe(h, 5, Exemplar(headers("01", true)))
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(h)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	buckets := families[0].GetMetric()[0].GetHistogram().GetBucket()
	unsampled, sampled := buckets[0], buckets[1]
	if unsampled.GetExemplar() != nil || unsampled.GetCumulativeCount() != 1 || sampled.GetCumulativeCount() != 2 {
		t.Errorf("%v", buckets)
	}
	if e := sampled.GetExemplar(); len(e.GetLabel()) != 1 || e.GetLabel()[0].GetName() != "trace_id" || e.GetLabel()[0].GetValue() != trace || e.GetValue() != 5 {
		t.Errorf("%v", e)
	}
}

func TestMeasurementsOfOtherInstancesAllocateNothing(t *testing.T) {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h", Buckets: Buckets()})
	for name, headers := range map[string]history.Headers{"none": "", "declared": history.Headers("").With("tenant", "acme"), "not sampled": headers("00", false)} {
		if n := testing.AllocsPerRun(100, func() { Observe(h, 1, Exemplar(headers)) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
