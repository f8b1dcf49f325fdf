package console_test

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"testing"
)

// color is a color as red, green and blue, each from 0 to 1.
type color [3]float64

func parseColor(t *testing.T, hex string) (c color) {
	t.Helper()
	if len(hex) == 3 {
		hex = string([]byte{hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]})
	}
	for i := range c {
		n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		check(t, err)
		c[i] = float64(n) / 255
	}
	return c
}

// over returns the color that results if c, at an opacity, is painted over another color.
func (c color) over(background color, opacity float64) (mixed color) {
	for i := range c {
		mixed[i] = c[i]*opacity + background[i]*(1-opacity)
	}
	return mixed
}

// contrast returns the contrast ratio of WCAG 2.2, from 1 to 21.
func contrast(a, b color) float64 {
	luminance := func(c color) float64 {
		for i, v := range c {
			if c[i] = v / 12.92; v > 0.04045 {
				c[i] = math.Pow((v+0.055)/1.055, 2.4)
			}
		}
		return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2]
	}
	light, dark := max(luminance(a), luminance(b)), min(luminance(a), luminance(b))
	return (light + 0.05) / (dark + 0.05)
}

// The colors of the style sheet have the contrast that WCAG AA requires in both schemes: 4.5 for text, including text on a
// pill of its color and on the row under the pointer, and 3 for the borders of fields. The browser tests measure the text on
// the pages, but not the background of pills.
func TestColorsHaveContrast(t *testing.T) {
	css, err := os.ReadFile("assets/console.css")
	check(t, err)
	schemes := [2]map[string]color{{}, {}}
	for _, m := range regexp.MustCompile(`--([a-z]+):light-dark\(#([0-9a-f]+),#([0-9a-f]+)\)`).FindAllStringSubmatch(string(css), -1) {
		schemes[0][m[1]], schemes[1][m[1]] = parseColor(t, m[2]), parseColor(t, m[3])
	}
	pill := regexp.MustCompile(`color-mix\(in oklab,currentColor ([0-9]+)%,transparent\)`).FindStringSubmatch(string(css))
	if len(schemes[0]) != 14 || pill == nil {
		t.Fatalf("%d colors, pill %v", len(schemes[0]), pill)
	}
	percent, err := strconv.ParseFloat(pill[1], 64)
	check(t, err)
	for i, of := range schemes {
		name := []string{"light", "dark"}[i]
		want := func(what string, got, least float64) {
			t.Helper()
			if got < least {
				t.Errorf("%s: %s has a contrast of %.2f, want %.1f", name, what, got, least)
			}
		}
		for _, background := range []string{"bg", "panel", "soft"} {
			for _, text := range []string{"text", "mute", "accent", "run", "wait", "ok", "bad", "gone"} {
				want(text+" on "+background, contrast(of[text], of[background]), 4.5)
				if text != "accent" && text != "text" { // pills do not use these colors
					want("a pill of "+text+" on "+background, contrast(of[text], of[text].over(of[background], percent/100)), 4.5)
				}
			}
			want("edge on "+background, contrast(of["edge"], of[background]), 3)
			want("the focus ring on "+background, contrast(of["accent"], of[background]), 3)
		}
		want("on on accent", contrast(of["on"], of["accent"]), 4.5)
		want("on on bad", contrast(of["on"], of["bad"]), 4.5)
	}
}
