package searchsvc

import (
	_ "embed"
	"strings"
)

//go:embed simplified.txt
var simplifiedLines string

// The block of Chinese characters that are looked up at once; few of the others have
// a simplified form.
const (
	firstHan = 0x3400
	endOfHan = 0xA000
)

// simplifiedBlock holds the simplified form of the Chinese characters of the block that have
// another one, 0 for the others, and simplifiedRest those beyond.
var simplifiedBlock, simplifiedRest = readSimplified()

func readSimplified() (block [endOfHan - firstHan]rune, rest map[rune]rune) {
	rest = map[rune]rune{}
	for line := range strings.Lines(simplifiedLines) {
		if line[0] == '#' {
			continue
		}
		for from, to := range pairs(strings.TrimSpace(line)) {
			if from >= firstHan && from < endOfHan {
				block[from-firstHan] = to
			} else {
				rest[from] = to
			}
		}
	}
	return block, rest
}

// simplified is the simplified form of a Chinese character, or the character itself.
func simplified(r rune) rune {
	if r >= firstHan && r < endOfHan {
		if to := simplifiedBlock[r-firstHan]; to != 0 {
			return to
		}
		return r
	}
	if to, ok := simplifiedRest[r]; ok {
		return to
	}
	return r
}
