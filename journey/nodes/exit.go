package nodes

var exit = Type{
	Name:     "exit",
	Schema:   "Exit",
	Enters:   PhaseDone,
	Title:    Words{"Exit", "退出"},
	Hint:     Words{"End the journey here", "在此结束旅程"},
	Summary:  Words{"The journey ends", "旅程结束"},
	Icon:     "M5 21V4M5 4.5c4-2.5 7 2.5 14 0v9.5c-7 2.5-10-2.5-14 0",
	Colour:   Leave,
	Guide:    "ends the journey, as a node without `next` does",
	Rule:     "ends the journey",
	Examples: []string{`{}`},
}
