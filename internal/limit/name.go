package limit

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxKey  = 64  // maximum bytes of a key that is used unchanged
	keyHead = 32  // maximum bytes that the name keeps of another key
	hashed  = '~' // separates them from the hash
)

// Name returns the name of the limit of an action or, unless key is empty, of one value of its key: "action/key". A key of up to 64 bytes
// of letters, digits and most signs is used unchanged. Any other key is represented by its beginning, a tilde and a hash. So no name
// contains a space, a brace or a second slash, and different keys have different names.
func Name(action, key string) string {
	if key == "" {
		return action
	}
	return action + "/" + escape(key)
}

func escape(key string) string {
	if len(key) <= maxKey && utf8.ValidString(key) && strings.IndexFunc(key, needsEscape) < 0 {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	var head strings.Builder
	for _, r := range key {
		if needsEscape(r) || r == utf8.RuneError {
			r = '_'
		}
		if head.Len()+utf8.RuneLen(r) > keyHead {
			break
		}
		head.WriteRune(r)
	}
	return head.String() + string(hashed) + base64.RawURLEncoding.EncodeToString(sum[:16])
}

// needsEscape reports whether a name must not contain a character, because it would end the name or its hash tag, is invisible, or marks
// a hash.
func needsEscape(r rune) bool {
	if r > unicode.MaxASCII {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}
	return r <= ' ' || r == unicode.MaxASCII || r == hashed || strings.ContainsRune(`{}/\"'`, r)
}

// Action returns the action of a limit.
func Action(name string) string {
	action, _, _ := strings.Cut(name, "/")
	return action
}

// Key returns the key of a limit as it appears in the name; empty if there is none.
func Key(name string) string {
	_, key, _ := strings.Cut(name, "/")
	return key
}
