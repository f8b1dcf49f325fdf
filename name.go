package pawl

import (
	"errors"
	"fmt"
	"strings"
)

// Errors of names and ids, for errors.Is. errors.As with *NameError returns the invalid text.
var (
	ErrBadName = errors.New("pawl: bad name")
	ErrBadID   = errors.New("pawl: bad instance id")
)

const (
	maxName = 100
	maxID   = 200
)

// NameError is the error of an invalid name or instance id. It matches ErrBadName or ErrBadID.
type NameError struct {
	Text string // the invalid name or id
	Rule string // the allowed characters and length
	kind error
}

// Error returns the beginning of the invalid text, at most 250 characters, and the rule that it breaks.
func (e *NameError) Error() string { return fmt.Sprintf("%v %.250q: %s", e.kind, e.Text, e.Rule) }

// Unwrap returns ErrBadName or ErrBadID.
func (e *NameError) Unwrap() error { return e.kind }

// ValidateID checks an instance id: 1 to 200 characters of A-Z a-z 0-9 _ : @ = + ~ % . -, without a leading or trailing dot. EscapeID
// converts any other text to an id.
func ValidateID(id string) error {
	if len(id) >= 1 && len(id) <= maxID && onlyOf(id, isID) && id[0] != '.' && id[len(id)-1] != '.' {
		return nil
	}
	return &NameError{
		Text: id, kind: ErrBadID,
		Rule: fmt.Sprintf("1 to %d characters of [A-Za-z0-9_:@=+~%%.-] are allowed, no dot at an end; EscapeID makes an id of any text", maxID),
	}
}

// ValidateName checks the name of an activity, an orchestration, an event or a queue: 1 to 100 characters of A-Z a-z 0-9 _ . -, without
// leading, trailing or consecutive dots, because names are parts of NATS subjects.
func ValidateName(name string) error {
	dots := strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") || strings.Contains(name, "..")
	if len(name) >= 1 && len(name) <= maxName && onlyOf(name, isName) && !dots {
		return nil
	}
	return &NameError{
		Text: name, kind: ErrBadName,
		Rule: fmt.Sprintf("1 to %d characters of [A-Za-z0-9_.-] are allowed, no dot at an end or beside another", maxName),
	}
}

// ofHandle adds the kind and name of a handle to its error.
func ofHandle(kind, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %q: %w", kind, name, err)
}

// EscapeID converts any text to an instance id: each disallowed byte, each percent sign, and a dot at either end become % and two
// hexadecimal digits. Different texts have different ids. The result may be longer than an id is allowed to be, which ValidateID checks.
func EscapeID(text string) string {
	var b strings.Builder
	for i := range len(text) {
		c, end := text[i], i == 0 || i == len(text)-1
		if isID(c) && c != '%' && (c != '.' || !end) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// UnescapeID returns the text that EscapeID converted to the id. The error is ErrBadID if a percent sign does not begin an escape.
func UnescapeID(id string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(id); i++ {
		if id[i] != '%' {
			b.WriteByte(id[i])
			continue
		}
		var c byte
		if i+2 >= len(id) || !unhex(id[i+1], &c) || !unhex(id[i+2], &c) {
			return "", &NameError{Text: id, Rule: "a percent sign is followed by two hexadecimal digits", kind: ErrBadID}
		}
		b.WriteByte(c)
		i += 2
	}
	return b.String(), nil
}

func unhex(digit byte, c *byte) bool {
	switch {
	case '0' <= digit && digit <= '9':
		*c = *c<<4 | (digit - '0')
	case 'A' <= digit && digit <= 'F':
		*c = *c<<4 | (digit - 'A' + 10)
	case 'a' <= digit && digit <= 'f':
		*c = *c<<4 | (digit - 'a' + 10)
	default:
		return false
	}
	return true
}

func onlyOf(s string, allowed func(byte) bool) bool {
	for i := range len(s) {
		if !allowed(s[i]) {
			return false
		}
	}
	return true
}

func isAlnum(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func isName(c byte) bool { return isAlnum(c) || strings.IndexByte("_.-", c) >= 0 }

func isID(c byte) bool { return isAlnum(c) || strings.IndexByte("_:@=+~%.-", c) >= 0 }
