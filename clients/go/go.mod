module checkproof

go 1.21
