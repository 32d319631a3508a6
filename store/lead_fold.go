package store

import "waypost"

// maxName is how many characters of the name of a webhook or a journey lists compare. A
// published one has no more.
const maxName = 200

// foldName is the name of a webhook or a journey as lists compare it. A draft's can be long.
func foldName(name string) string {
	if runes := []rune(name); len(runes) > maxName {
		name = string(runes[:maxName])
	}
	return waypost.FoldText(cleanText(name))
}
