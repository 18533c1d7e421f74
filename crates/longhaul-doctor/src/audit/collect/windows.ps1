# Shows the TCP settings of this Windows host for `longhaul audit`. It changes nothing, and an ordinary user may run it (not tried on such a host):
#   powershell -ExecutionPolicy Bypass -File windows.ps1 > HOST.txt
# Or paste the lines below into PowerShell.
function Show($Command) {
    "PS> $Command"
    Invoke-Expression $Command | Out-String -Width 200
}

Show 'hostname'
Show 'netsh interface tcp show global'
Show 'netsh interface tcp show supplemental'
Show 'netsh interface tcp show heuristics'
Show 'Get-NetTCPSetting | Format-List'
Show 'Get-NetOffloadGlobalSetting | Format-List'
