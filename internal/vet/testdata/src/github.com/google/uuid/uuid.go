package uuid

type UUID [16]byte

var reader func([]byte)

func New() (u UUID)                    { reader(u[:]); return }
func NewString() string                { return New().String() }
func Parse(s string) (u UUID, e error) { copy(u[:], s); return }
func (u UUID) String() string          { return string(u[:]) }
