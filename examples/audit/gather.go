package audit

// MaxPackages is the maximum number of packages of an audit: each adds two history events, and an execution holds 100,000.
const MaxPackages = 45_000

const (
	maxOffenders = 20
	maxPartBytes = 256 << 10 // half of the maximum payload
)

// Totals are the sums over all packages of an audit.
type Totals struct {
	Packages   int       `json:"packages"`
	Files      int       `json:"files"`
	Lines      int       `json:"lines"`
	Exported   int       `json:"exported"`
	Functions  int       `json:"functions"`
	Complexity int       `json:"complexity"`
	Marks      int       `json:"marks"`
	Problems   int       `json:"problems"` // directories and files that could not be read or parsed
	Offenders  []Hotspot `json:"offenders,omitempty"`
}

// Add adds the summary of one package, in any order.
func (t *Totals) Add(s Summary) {
	t.Packages++
	t.Files += s.Files
	t.Lines += s.Lines
	t.Exported += s.Exported
	t.Functions += s.Functions
	t.Complexity += s.Complexity
	t.Marks += s.Marks
	t.Problems += len(s.Problems) + s.Unnamed
	t.Offenders = worst(append(t.Offenders, s.Hotspots...), maxOffenders)
}

// Part is a piece of a report that fits into one payload.
type Part struct {
	Problems  []Problem `json:"problems,omitempty"` // of the listing
	Summaries []Summary `json:"summaries,omitempty"`
}

// Split divides an audit's findings into parts, in order and deterministically. There is always at least one part.
func Split(problems []Problem, summaries []Summary) []Part {
	parts, size := []Part{{}}, 0
	room := func(n int) *Part {
		if size += n; size > maxPartBytes && size > n {
			parts, size = append(parts, Part{}), n
		}
		return &parts[len(parts)-1]
	}
	for _, p := range problems {
		last := room(p.size())
		last.Problems = append(last.Problems, p)
	}
	for _, s := range summaries {
		last := room(s.size())
		last.Summaries = append(last.Summaries, s)
	}
	return parts
}

// size is an upper bound of the encoded size, in bytes.
func (p Problem) size() int { return 32 + len(p.Path) + len(p.Text) }

func (s Summary) size() int {
	n := 192 + len(s.Package)
	for _, h := range s.Hotspots {
		n += 80 + len(h.Function) + len(h.File)
	}
	for _, p := range s.Problems {
		n += p.size()
	}
	return n
}
